#pragma once

/// All callbacks. Source: keras.callbacks 3.15.

#include "strata/keras/callback.h"
#include "strata/keras/callbacks/backup_and_restore.h"
#include "strata/keras/callbacks/csv_logger.h"
#include "strata/keras/callbacks/early_stopping.h"
#include "strata/keras/callbacks/lambda_callback.h"
#include "strata/keras/callbacks/learning_rate_scheduler.h"
#include "strata/keras/callbacks/model_checkpoint.h"
#include "strata/keras/callbacks/progress_bar.h"
#include "strata/keras/callbacks/reduce_lr_on_plateau.h"
#include "strata/keras/callbacks/remote_monitor.h"
#include "strata/keras/callbacks/swap_ema_weights.h"
#include "strata/keras/callbacks/tensor_board.h"
#include "strata/keras/callbacks/terminate_on_nan.h"
