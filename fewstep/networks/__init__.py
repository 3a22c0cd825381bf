"""Networks as plain functions."""

from fewstep.networks.conv4 import conv4 as conv4
from fewstep.networks.convolution import conv_general_dilated as conv_general_dilated
from fewstep.networks.convolution import convolve as convolve
from fewstep.networks.mlp import mlp as mlp
from fewstep.networks.normalization import normalize as normalize
