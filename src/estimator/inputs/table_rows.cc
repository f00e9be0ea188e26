#include "strata/estimator/table_rows.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/join.h"
#include "estimator/inputs/example_features.h"
#include "strata/core/error.h"

namespace strata::estimator {
namespace {

/// The place of the label among names; unset without one. @throws Error kInvalidArgument: a name
/// twice, no such label.
std::optional<size_t> place_of_label(const std::vector<std::string>& names,
                                     const std::string& label) {
  const std::set<std::string> all(names.begin(), names.end());
  STRATA_CHECK(all.size() == names.size(), kInvalidArgument, "[estimator] table rows: got ",
               join(names), "; expected each name once");
  if (label.empty()) return std::nullopt;
  const auto found = std::ranges::find(names, label);
  STRATA_CHECK(found != names.end(), kInvalidArgument, "[estimator] table rows: got the label '",
               label, "'; expected one of ", join(names));
  return static_cast<size_t>(found - names.begin());
}

/// Fields with the label behind the others.
TableRows table_of(data::Dataset rows, std::vector<FieldName> names,
                   std::vector<at::Scalar> padding, std::optional<size_t> label) {
  if (!label) return {std::move(rows), std::move(names), {}, std::move(padding)};
  const auto at = static_cast<std::ptrdiff_t>(*label);
  std::rotate(names.begin() + at, names.begin() + at + 1, names.end());
  std::rotate(padding.begin() + at, padding.begin() + at + 1, padding.end());
  FieldName last = std::move(names.back());
  names.pop_back();
  return {rows.map([at](const data::Example& row) {
            data::Example moved = row;
            std::rotate(moved.fields.begin() + at, moved.fields.begin() + at + 1,
                        moved.fields.end());
            return moved;
          }),
          std::move(names),
          {std::move(last)},
          std::move(padding)};
}

}  // namespace

Input TableRows::batch(int64_t batch_size, bool drop_remainder) const {
  return Input(
      rows.padded_batch(batch_size, {.padding_values = padding, .drop_remainder = drop_remainder}),
      features, labels);
}

TableRows csv_rows(std::vector<std::string> files, const std::vector<CsvField>& fields,
                   const CsvRowsOptions& options) {
  std::vector<std::string> names;
  std::vector<FieldName> kinds;
  std::vector<data::CsvColumn> columns;
  for (const CsvField& field : fields) {
    names.push_back(field.name);
    kinds.push_back(
        {.name = field.name, .is_text = field.column.type == data::CsvColumn::Type::kString});
    columns.push_back(field.column);
  }
  const auto label = place_of_label(names, options.label_name);
  std::vector<at::Scalar> padding(fields.size(), at::Scalar(0));  // of texts alone
  return table_of(data::csv(std::move(files), std::move(columns), options.csv), std::move(kinds),
                  std::move(padding), label);
}

TableRows example_rows(const data::Dataset& records, const ExampleSpec& spec,
                       const std::string& label_key) {
  std::vector<std::string> names;
  std::vector<FieldName> kinds;
  std::vector<at::Scalar> padding;
  std::vector<detail::ExampleField> fields;
  for (const auto& [name, given] : spec) {
    const detail::ExampleField field = detail::field_of(name, given);
    const bool is_text = field.type == data::FeatureType::kBytes;
    names.push_back(name);
    kinds.push_back({.name = name, .is_text = is_text, .is_sparse = field.is_sparse});
    padding.push_back(is_text ? at::Scalar(0) : detail::padding_of(field.type));
    fields.push_back(field);
  }
  const auto label = place_of_label(names, label_key);
  const data::ExampleParser parser(spec);
  const auto parse = [parser, fields](const data::Example& element) {
    const data::ParsedExample parsed = parser.parse(data::bytes_of(element[0]));
    data::Example row;
    for (size_t i = 0; i < fields.size(); ++i) {
      const data::ParsedFeature& feature = parsed.features()[i];
      if (fields[i].type != data::FeatureType::kBytes) {
        row.fields.push_back(feature.values);
        continue;
      }
      at::Tensor texts = text_feature(feature.strings()).values;
      if (!fields[i].is_sparse) {
        std::vector<int64_t> sizes = fields[i].shape;
        sizes.push_back(texts.size(1));
        texts = texts.reshape(sizes);
      }
      row.fields.push_back(texts);
    }
    return row;
  };
  return table_of(records.map(parse), std::move(kinds), std::move(padding), label);
}

}  // namespace strata::estimator
