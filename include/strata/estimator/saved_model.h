#pragma once

#include <cstdint>
#include <string>

#include "strata/core/export.h"
#include "strata/estimator/estimator.h"
#include "strata/estimator/exporter.h"
#include "strata/estimator/features.h"
#include "strata/estimator/table_rows.h"

namespace strata::estimator {

struct ExportSavedModelOptions {
  std::string checkpoint_path = {};  ///< Empty: the newest, else that of the warm start.
};

/// Writes what `predict` computes, with its weights, into `<export_dir_base>/<seconds since 1970>`,
/// for programs without the model_fn: strata::load_predictor, `strata predict`. The folder appears
/// whole or not at all. It has `model.json`, with features, columns and signatures, and
/// `model.graph` (graph/saved_graph.h).
///
/// Ids of categorical columns are inputs of the graph: who loads it computes them with the columns
/// that model.json describes.
/// @param features  A batch as the model will get it, of any number of rows: names, kinds, dtypes
///   and sizes count. As many entries as its sparse features have are the most that a row may have
///   later. serving_features makes it of a parsing spec.
/// @return The folder.
/// @throws Error  kNotFound: there is no trained model. kFailedPrecondition, kUnimplemented: the
///   model cannot be recorded, or has a text that is read by other means than columns, or a
///   function of the program's within a crossed column; names it. kInvalidArgument: signatures that
///   name no prediction.
/// Source: tf.estimator.Estimator.export_saved_model.
STRATA_API std::string export_saved_model(Estimator& estimator, const std::string& export_dir_base,
                                          const Features& features,
                                          const ExportSavedModelOptions& options = {});

/// The same as what exporters call.
STRATA_API ExportFn saved_model_export_fn(Features features);

/// A batch of one row with the features of a spec, all of them 0 or empty.
/// @param most_entries  Of features of any length.
/// Source: tf.estimator.export.build_parsing_serving_input_receiver_fn.
STRATA_API Features serving_features(const ExampleSpec& spec, int64_t most_entries = 1);

}  // namespace strata::estimator
