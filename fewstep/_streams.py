"""Streams of random numbers that never meet: what a seed's key, or a task's, is folded with before anything is drawn.

The numbers are part of every result: another number would give other tasks.
"""

# Of a seed.
TRAINING, VALIDATION, TEST, START = 0, 1, 2, 3
UNSEEN = 7  # tasks that are only looked at: figures and reports
TABLE = 11  # rows that a table's tasks are learned from when they are evaluated
TEACHING = 13  # episodes that a teacher answers on
# Of a task's key, and of a learner's first key, which a chain folds with the numbers of its links.
MINIBATCHES, INNER_LOSS = 2**31 - 1, 2**31 - 2
# Of a task's key, by outer gradients.
PERTURBATIONS, DRAWS, VARIANTS = 2**31 - 5, 2**31 - 6, 2**31 - 7
SIZES = 2**31 - 8  # of a task's key: how many rows are learned from
