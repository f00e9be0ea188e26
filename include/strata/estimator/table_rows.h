#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "strata/core/export.h"
#include "strata/data/csv.h"
#include "strata/data/dataset.h"
#include "strata/data/tf_example.h"
#include "strata/estimator/feature_column.h"
#include "strata/estimator/features.h"
#include "strata/estimator/input.h"

namespace strata::estimator {

/// The features of Examples by name, as data::ExampleParser takes them.
using ExampleSpec = std::vector<std::pair<std::string, data::FeatureSpec>>;

/// The features that columns read, by name: numeric ones of fixed length, others of any.
/// @throws Error kInvalidArgument: columns that read one feature differently.
/// Source: tf.feature_column.make_parse_example_spec.
STRATA_API ExampleSpec
make_parse_example_spec(const std::vector<feature_column::FeatureColumn>& columns);

struct ClassifierSpecOptions {
  data::FeatureType label_type = data::FeatureType::kInt64;  ///< kBytes with a label_vocabulary.
  data::TfFeature label_default = {};                        ///< Unset: labels are required.
  std::string weight_column = {};
};
/// The same with a label of one value. @throws Error kInvalidArgument: a name that is a feature's.
/// Source: tf.estimator.classifier_parse_example_spec.
STRATA_API ExampleSpec classifier_parse_example_spec(
    const std::vector<feature_column::FeatureColumn>& columns, const std::string& label_key,
    const ClassifierSpecOptions& options = {});

struct RegressorSpecOptions {
  int64_t label_dimension = 1;
  data::TfFeature label_default = {};
  std::string weight_column = {};
};
/// The same with `label_dimension` numbers as the label. Source:
/// tf.estimator.regressor_parse_example_spec.
STRATA_API ExampleSpec regressor_parse_example_spec(
    const std::vector<feature_column::FeatureColumn>& columns, const std::string& label_key,
    const RegressorSpecOptions& options = {});

/// The features of a parsed batch (ExampleParser::parse_batch). Those of any length become sparse:
/// padded with -1, empty texts, or 0 for floats. @throws Error kInvalidArgument: a
/// FixedLenSequenceFeature.
STRATA_API Features features_of(const data::ParsedExample& batch, const ExampleSpec& spec);

/// Rows of a table, whose fields have names: to be shuffled, repeated and the like, and then
/// batched for an input_fn:
///
///     TableRows train = csv_rows({"adult.csv"}, columns, {.label_name = "income"});
///     train.rows = train.rows.shuffle(1000).repeat();
///     return train.batch(128);
struct STRATA_API TableRows {
  data::Dataset rows;  ///< The features, in their order, then the labels.
  std::vector<FieldName> features;
  std::vector<FieldName> labels;
  std::vector<at::Scalar> padding;  ///< What each field is padded with.

  Input batch(int64_t batch_size, bool drop_remainder = false) const;
};

struct CsvField {
  std::string name;
  data::CsvColumn column;
};
struct CsvRowsOptions {
  std::string label_name = {};  ///< Empty: no labels.
  data::CsvOptions csv = {.header = true};
};
/// The rows of CSV files. @param fields  One for each (selected) column of the files, in their
/// order.
/// @throws Error as data::csv; kInvalidArgument: a name twice, no field of the label's name.
///   Source: tf.data.experimental.make_csv_dataset.
STRATA_API TableRows csv_rows(std::vector<std::string> files, const std::vector<CsvField>& fields,
                              const CsvRowsOptions& options = {});

/// Examples as rows. @param records  Serialized ones, as data::tf_records gives them.
/// @throws Error as ExampleParser; kInvalidArgument: no feature of the label's name.
/// Source: tf.data.experimental.make_batched_features_dataset.
STRATA_API TableRows example_rows(const data::Dataset& records, const ExampleSpec& spec,
                                  const std::string& label_key = {});

}  // namespace strata::estimator
