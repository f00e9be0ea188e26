#pragma once

// All of Keras's metrics.
#include "strata/keras/confusion_metrics.h"
#include "strata/keras/iou_metrics.h"
#include "strata/keras/mean_metrics.h"
#include "strata/keras/metric.h"
#include "strata/keras/score_metrics.h"
