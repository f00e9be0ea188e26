#pragma once

#include "strata/core/export.h"
#include "strata/estimator/estimator.h"
#include "strata/keras/model.h"

namespace strata::estimator {

/// Makes an estimator of a compiled Keras model: of its architecture, its present weights, its
/// losses and metrics, and its optimizer's options. The optimizer's state begins anew, and the
/// model itself is left as it is.
///
/// Features are the model's inputs by their layers' names (a model with one input takes one feature
/// of any name), labels its outputs likewise (one label of any name); predictions are the outputs
/// by name. Metrics have the names that they were compiled with; those of a model with several
/// outputs are `<output>_<metric>`. `loss` is with regularizers, and the mean over replicas.
/// @param options  Without params.
/// @throws Error  kFailedPrecondition: not compiled, or not built. kUnimplemented: a class, loss or
///   metric of the program's own (model_to_config).
/// Source: tf.keras.estimator.model_to_estimator.
STRATA_API Estimator model_to_estimator(const keras::Model& model, EstimatorOptions options = {});

}  // namespace strata::estimator
