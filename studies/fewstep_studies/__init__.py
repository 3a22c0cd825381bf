"""Studies on top of fewstep: published results reproduced, and speed beside other libraries."""
