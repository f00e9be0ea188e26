#pragma once

/// All layers. Source: keras.layers 3.15.

#include "strata/keras/layers/activation.h"
#include "strata/keras/layers/attention.h"
#include "strata/keras/layers/categories.h"
#include "strata/keras/layers/color_augmentation.h"
#include "strata/keras/layers/convolutional.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/layers/image_preprocessing.h"
#include "strata/keras/layers/merging.h"
#include "strata/keras/layers/normalization.h"
#include "strata/keras/layers/option_types.h"
#include "strata/keras/layers/pooling.h"
#include "strata/keras/layers/preprocessing.h"
#include "strata/keras/layers/recurrent.h"
#include "strata/keras/layers/recurrent_cells.h"
#include "strata/keras/layers/regularization.h"
#include "strata/keras/layers/reshaping.h"
#include "strata/keras/layers/wrappers.h"
