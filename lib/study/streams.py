"""What the study draws, by name."""

from enum import IntEnum


class Stream(IntEnum):
    EXAMPLE = 0
    GAUSSIAN_PROCESS = 1
    PERTURBATION = 2
    GRADIENT_NOISE = 3
    READINGS = 11
    VALIDATION = 19
    PREDICTIONS = 20
    JURA_FOLDS = 31
    JURA_RESPLITS = 37
    VAE_PREDICTIONS = 41
    DIFFUSION_KERNEL = 43
    SECONDARIES = 47
    HEAD_START = 60
    TWIN_TRUTH = 71
    TWIN_WELLS = 72
    TWIN_SOURCES = 73
    TWIN_DRAWS = 75
    GP_START = 81
    EXPLORER = 90
    AMORTISED = 95
    FIELDS = 97
