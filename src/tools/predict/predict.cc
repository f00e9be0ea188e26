// strata-predict, which `strata predict FOLDER --input FILE` runs.
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/join.h"
#include "data/files/csv_record.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/estimator/predictor.h"
#include "strata/estimator/table_rows.h"
#include "tools/command_line.h"
#include "tools/exit_status.h"

namespace strata::tools {
namespace {

using estimator::Feature;
using estimator::Features;

constexpr int64_t kRowsAtOnce = 1024;

CommandHelp predict_help() {
  return {
      .usage = "strata predict FOLDER --input FILE [options]",
      .description =
          R"(Predicts with a model that estimator::export_saved_model has written into FOLDER, for the rows of a CSV
file. Its header has the names of the features; a feature of several numbers has a column for each,
NAME_0, NAME_1 and so on. Other columns are ignored. Empty fields are missing values where the feature
may be missing. The predictions are CSV, too.
)",
      .examples =
          "  strata predict export/best/1700000000 --input people.csv\n"
          "  strata predict export/best/1700000000 --input people.csv --output income.csv\n"
          "  strata predict export/best/1700000000 --signatures\n"};
}

std::vector<std::string> header_of(const std::string& path) {
  data::detail::BufferedReader bytes(data::detail::open_byte_reader(path, data::Compression::kAuto),
                                     data::CsvOptions().buffer_size);
  data::detail::CsvRecordReader records(bytes,
                                        {.source = "[strata predict] " + path,
                                         .max_record_bytes = data::CsvOptions().max_record_bytes,
                                         .max_fields = data::CsvOptions().max_fields});
  std::vector<data::detail::CsvField> fields;
  STRATA_CHECK(records.next(fields), kInvalidArgument, "[strata predict] ", path,
               " is empty; expected a header with the names of the features");
  std::vector<std::string> names;
  std::string scratch;
  for (const data::detail::CsvField& field : fields) {
    names.emplace_back(data::detail::unquoted(field, scratch));
  }
  return names;
}

data::CsvColumn column_of(const Predictor::FeatureSpec& spec) {
  if (spec.is_text) return data::CsvColumn::string("");
  if (at::isFloatingType(spec.dtype)) {
    return spec.is_sparse ? data::CsvColumn::float32(0.F) : data::CsvColumn::float32();
  }
  return spec.is_sparse ? data::CsvColumn::int64(-1) : data::CsvColumn::int64();
}

int64_t numbers_of(const Predictor::FeatureSpec& spec) {
  return std::accumulate(spec.shape.begin(), spec.shape.end(), int64_t{1}, std::multiplies<>());
}

/// Which columns of the file a feature has.
using ColumnsOfFeatures = std::map<std::string, std::vector<std::string>>;

ColumnsOfFeatures columns_of(const Predictor& predictor, const std::vector<std::string>& header,
                             const std::string& path) {
  const auto has = [&](const std::string& name) {
    return std::ranges::find(header, name) != header.end();
  };
  ColumnsOfFeatures columns;
  for (const auto& [name, spec] : predictor.features()) {
    std::vector<std::string> wanted = {name};
    // One entry of a feature that may have more is a column of its name.
    if (numbers_of(spec) != 1 && !(spec.is_sparse && has(name))) {
      wanted.clear();
      for (int64_t i = 0; i < numbers_of(spec); ++i) {
        wanted.push_back(name + '_' + std::to_string(i));
      }
    }
    for (const std::string& column : wanted) {
      STRATA_CHECK(has(column), kInvalidArgument, "[strata predict] ", path, " has no column '",
                   column, "'; expected the model's features (",
                   join(predictor.features(), [](const auto& each) { return each.first; }),
                   ") in its header; got ", join(header));
    }
    columns.emplace(name, std::move(wanted));
  }
  return columns;
}

/// The rows of the columns that the model needs.
estimator::TableRows rows_of(const Predictor& predictor, const ColumnsOfFeatures& columns,
                             const std::vector<std::string>& header, const std::string& path) {
  std::vector<estimator::CsvField> fields;
  data::CsvOptions csv{.header = true};
  for (size_t i = 0; i < header.size(); ++i) {
    for (const auto& [name, of_feature] : columns) {
      if (std::ranges::find(of_feature, header[i]) == of_feature.end()) continue;
      fields.push_back({.name = header[i], .column = column_of(predictor.features().at(name))});
      csv.select_cols.push_back(static_cast<int64_t>(i));
      break;
    }
  }
  return estimator::csv_rows({path}, fields, {.csv = csv});
}

Features features_of(const data::Example& batch, const std::vector<estimator::FieldName>& fields,
                     const Predictor& predictor, const ColumnsOfFeatures& columns) {
  std::map<std::string, at::Tensor> by_column;
  for (size_t i = 0; i < fields.size(); ++i) by_column.emplace(fields[i].name, batch.fields.at(i));
  Features features;
  for (const auto& [name, of_feature] : columns) {
    std::vector<at::Tensor> parts;
    int64_t width = 0;
    for (const std::string& column : of_feature) {
      parts.push_back(by_column.at(column));
      if (parts.back().dim() == 2) width = std::max(width, parts.back().size(1));
    }
    const Predictor::FeatureSpec& spec = predictor.features().at(name);
    if (spec.is_text) {
      for (at::Tensor& part : parts) part = at::constant_pad_nd(part, {0, width - part.size(1)});
    }
    const bool is_single = spec.shape.empty();
    features.emplace(name, Feature{.values = is_single ? parts[0] : at::stack(parts, 1),
                                   .is_text = spec.is_text,
                                   .is_sparse = spec.is_sparse});
  }
  return features;
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

int64_t columns_of(const Feature& feature) {
  const int64_t rows = feature.values.size(0);
  const int64_t width = feature.is_text ? feature.values.size(-1) : 1;
  return rows == 0 ? 0 : feature.values.numel() / (rows * width);
}

std::string header_line(const Features& outputs) {
  std::vector<std::string> names;
  for (const auto& [name, feature] : outputs) {
    const int64_t columns = columns_of(feature);
    for (int64_t i = 0; i < columns; ++i) {
      names.push_back(quoted(columns == 1 ? name : name + '_' + std::to_string(i)));
    }
  }
  return join(names, {}, ",") + '\n';
}

std::string number_text(const at::Tensor& values, int64_t index) {
  if (!at::isFloatingType(values.scalar_type())) {
    return std::to_string(values[index].item<int64_t>());
  }
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", values[index].item<double>());
  return text;
}

std::string lines_of(const Features& outputs) {
  std::string lines;
  const int64_t rows = outputs.begin()->second.values.size(0);
  std::map<std::string, at::Tensor> numbers;
  for (const auto& [name, feature] : outputs) numbers.emplace(name, feature.values.flatten());
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<std::string> fields;
    for (const auto& [name, feature] : outputs) {
      const int64_t columns = columns_of(feature);
      for (int64_t i = 0; i < columns; ++i) {
        fields.push_back(feature.is_text ? quoted(estimator::text_at(feature, row, i))
                                         : number_text(numbers.at(name), row * columns + i));
      }
    }
    lines += join(fields, {}, ",") + '\n';
  }
  return lines;
}

struct PredictOptions {
  std::string input;
  std::string output;
  std::string signature = "serving_default";
};

void predict(const Predictor& predictor, const PredictOptions& options,
             const std::function<void(const std::string& text)>& write) {
  const std::vector<std::string> header = header_of(options.input);
  const ColumnsOfFeatures columns = columns_of(predictor, header, options.input);
  const estimator::Input input =
      rows_of(predictor, columns, header, options.input).batch(kRowsAtOnce);
  bool is_first = true;
  for (const data::Example& batch : input.dataset) {
    const Features outputs =
        predictor(features_of(batch, input.features, predictor, columns), options.signature);
    if (std::exchange(is_first, false)) write(header_line(outputs));
    write(lines_of(outputs));
  }
}

void print_signatures(const Predictor& predictor) {
  std::cout << "global step " << predictor.global_step() << '\n';
  for (const auto& [name, spec] : predictor.features()) {
    std::cout << "feature " << name << ": " << (spec.is_sparse ? "up to " : "") << numbers_of(spec)
              << ' ' << (spec.is_text ? "text" : c10::toString(spec.dtype)) << '\n';
  }
  for (const auto& [name, signature] : predictor.signatures()) {
    std::cout << "signature " << name << " (" << signature.method
              << "): " << join(signature.outputs, [](const auto& each) { return each.first; })
              << '\n';
  }
}

int run_predict(int argc, char** argv) {
  PredictOptions options;
  bool signatures = false;
  CommandLine line("strata predict", predict_help());
  line.text("--input", "FILE", "CSV with a header, gzipped or not", options.input);
  line.text("--output", "FILE", "where the predictions go (default: standard output)",
            options.output);
  line.text("--signature", "NAME", "which outputs (default serving_default)", options.signature);
  line.flag("--signatures", "print the model's features and signatures", signatures);
  if (!line.read({argv + 1, argv + argc})) {
    std::cout << line.help();
    return 0;
  }
  if (line.operands().size() != 1) {
    std::cerr << line.help();
    return kUsageError;
  }
  const Predictor predictor = load_predictor(line.operands()[0]);
  if (signatures) {
    print_signatures(predictor);
    return 0;
  }
  STRATA_CHECK(!options.input.empty(), kInvalidArgument,
               "[strata predict] got no input; expected --input FILE.csv, or --signatures");
  if (options.output.empty()) {
    predict(predictor, options, [](const std::string& text) { std::cout << text; });
    return 0;
  }
  detail::write_atomically(options.output, [&](WritableFile& file) {
    predict(predictor, options,
            [&](const std::string& text) { file.append(std::as_bytes(std::span(text))); });
  });
  std::cout << "wrote " << options.output << '\n';
  return 0;
}

}  // namespace
}  // namespace strata::tools

int main(int argc, char** argv) {
  return strata::tools::exit_status_of("strata",
                                       [&] { return strata::tools::run_predict(argc, argv); });
}
