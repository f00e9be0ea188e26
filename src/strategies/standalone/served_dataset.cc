#include "strategies/standalone/served_dataset.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "core/checked_size.h"
#include "strata/core/error.h"
#include "strata/data/csv.h"
#include "strata/data/image_codec.h"
#include "strata/data/image_folder.h"
#include "strata/data/image_ops.h"
#include "strata/data/mnist.h"
#include "strata/data/tf_example.h"
#include "strata/data/tf_record.h"

namespace strata::standalone {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBatchesAhead = 2;  // read while a step computes

/// The files' places on this host.
std::vector<std::string> places_of(const std::string& folder, const ServerDatasetOptions& options) {
  STRATA_CHECK(!folder.empty(), kPermissionDenied,
               "[standalone] server_dataset: this server reads no files for clients; start it with "
               "--data FOLDER");
  const fs::path root = fs::canonical(folder);
  std::vector<std::string> places;
  for (const std::string& file : options.files) {
    std::error_code error;
    const fs::path place = fs::canonical(root / file, error);
    const auto [end, unused] = std::mismatch(root.begin(), root.end(), place.begin(), place.end());
    STRATA_CHECK(!error && end == root.end() && fs::path(file).is_relative(), kPermissionDenied,
                 "[standalone] server_dataset: got '", file,
                 "'; expected a file in the folder that the server was started with (--data)");
    places.push_back(place.string());
  }
  return places;
}

data::DecodeOptions decoding(const ServerDatasetOptions& options) {
  return {.channels = 3, .min_height = options.image_height, .min_width = options.image_width};
}

/// float32 `[height, width, 3]` in 0..1.
at::Tensor sized(const at::Tensor& image, const ServerDatasetOptions& options) {
  return data::resize(image, options.image_height, options.image_width).to(at::kFloat).div(255);
}

data::Dataset shuffled(data::Dataset dataset, const ServerDatasetOptions& options) {
  return options.shuffle > 0 ? dataset.shuffle(options.shuffle, {.seed = options.seed}) : dataset;
}

/// Tensors of examples, as fields.
data::Dataset records(const std::vector<std::string>& files, const ServerDatasetOptions& options) {
  std::vector<std::pair<std::string, data::FeatureSpec>> features;
  for (const RecordField& field : options.fields) {
    const auto type = field.type == RecordFieldType::kFloat   ? data::FeatureType::kFloat
                      : field.type == RecordFieldType::kInt64 ? data::FeatureType::kInt64
                                                              : data::FeatureType::kBytes;
    features.emplace_back(field.name, data::FixedLenFeature{type, field.shape});
  }
  const auto decode = [parser = data::ExampleParser(std::move(features)),
                       options](const data::Example& record) {
    data::Example e = parser(record);
    for (size_t i = 0; i < options.fields.size(); ++i) {
      if (options.fields[i].type != RecordFieldType::kImage) continue;
      e.fields[i] =
          sized(data::decode_image(data::bytes_of(e.fields[i]), decoding(options)), options);
    }
    return e;
  };
  return shuffled(data::tf_records(files), options)
      .map(decode, {.num_parallel_calls = data::kAutotune});
}

data::Dataset images(const std::string& folder, const ServerDatasetOptions& options) {
  const auto load = [options](const data::Example& e) {
    return data::Example{
        sized(data::load_image(data::to_string(e.x()), decoding(options)), options), e.y()};
  };
  return shuffled(data::image_folder(folder).files(), options)
      .map(load, {.num_parallel_calls = data::kAutotune});
}

/// As it is shuffled, without batches.
data::Dataset examples_of(const std::string& folder, const ServerDatasetOptions& options) {
  const std::vector<std::string> files = places_of(folder, options);
  if (options.format == ServerFormat::kRecords) return records(files, options);
  if (options.format == ServerFormat::kImageFolder) return images(files[0], options);
  const data::Dataset dataset = options.format == ServerFormat::kIdx
                                    ? data::Dataset::idx_files(files[0], files[1])
                                    : data::csv_matrix(files, {.label_column = options.label_column,
                                                               .classes = options.classes,
                                                               .header = options.header});
  return shuffled(dataset, options);
}

data::Example idx_batch(data::Example batch) {
  if (batch.x().scalar_type() == at::kByte) batch = data::scale_pixels(std::move(batch));
  batch.fields[1] = batch.y().to(at::kLong);
  return batch;
}

data::Dataset dataset_of(const std::string& folder, const ServerDatasetOptions& options) {
  data::Dataset batches =
      examples_of(folder, options).batch(options.batch_size, {.drop_remainder = true});
  if (options.format == ServerFormat::kIdx) batches = batches.map(idx_batch);
  return options.batches > 0 ? batches.take(options.batches) : batches;
}

/// Those that there are, or that the client says.
int64_t batches_of(const data::Dataset& dataset, const std::string& folder,
                   const ServerDatasetOptions& options) {
  int64_t batches = dataset.cardinality();
  if (batches < 0 && options.batches > 0) return options.batches;
  if (batches < 0) {
    // Records need no decoding to be counted.
    const data::Dataset examples = options.format == ServerFormat::kRecords
                                       ? data::tf_records(places_of(folder, options))
                                       : examples_of(folder, options);
    batches = examples.reduce(int64_t{0}, [](int64_t n, const data::Example&) { return n + 1; }) /
              options.batch_size;
  }
  STRATA_CHECK(options.batches == 0 || batches == options.batches, kInvalidArgument,
               "[standalone] server_dataset: got batches ", options.batches, "; the files have ",
               batches);
  return batches;
}

uint64_t bytes_of_batch(const data::ElementSpec& fields) {
  uint64_t bytes = 0;
  for (const data::TensorSpec& field : fields) {
    const auto elements = strata::detail::checked_product<int64_t>(field.shape);
    STRATA_CHECK(elements, kInvalidArgument, "[standalone] server_dataset: got a field of ",
                 field.to_string(), "; expected one size for all batches");
    bytes += static_cast<uint64_t>(*elements) * c10::elementSize(field.dtype);
  }
  return bytes;
}

}  // namespace

ServedDataset::ServedDataset(const std::string& folder, const ServerDatasetOptions& options,
                             Budget& budget)
    : dataset_(dataset_of(folder, options)), fields_(dataset_.element_spec()), budget_(budget) {
  // The batches that are read ahead and the one in use, and what the shuffle's buffer may hold.
  const uint64_t batch = bytes_of_batch(fields_);
  const auto rows = static_cast<uint64_t>(options.batch_size);
  const uint64_t row = (batch + rows - 1) / rows;
  budget_.take(batch * (kBatchesAhead + 2));
  budget_.take(std::min<uint64_t>(static_cast<uint64_t>(options.shuffle) * row, budget_.left()));
  batches_ = batches_of(dataset_, folder, options);
  dataset_ = dataset_.prefetch(kBatchesAhead);
}

at::Tensor ServedDataset::rows(int64_t epoch, int64_t batch, int64_t field, int64_t begin,
                               int64_t count) {
  const bool exists = epoch >= 0 && batch >= 0 && batch < batches_ && field >= 0 &&
                      field < static_cast<int64_t>(fields_.size());
  STRATA_CHECK(exists, kInvalidArgument, "[standalone] run: got field ", field, " of batch ", batch,
               " of epoch ", epoch, "; the dataset has ", fields_.size(), " fields and ", batches_,
               " batches");
  const std::vector<int64_t>& shape = fields_[static_cast<size_t>(field)].shape;
  const int64_t most = shape.empty() ? 0 : shape[0];
  STRATA_CHECK(begin >= 0 && count >= 0 && count <= most && begin <= most - count, kInvalidArgument,
               "[standalone] run: got rows ", begin, " to ", begin + count, " of a batch of ",
               most);
  if (!iterator_ || epoch != epoch_ || batch != next_ - 1) {
    if (!iterator_ || epoch != epoch_ || batch < next_) {
      iterator_.emplace(dataset_.skip(batch).iterator(epoch));
      epoch_ = epoch;
      next_ = batch;
    }
    std::optional<data::Example> read;
    while (next_ <= batch) {
      read = iterator_->next();
      ++next_;
    }
    STRATA_CHECK(read.has_value(), kDataLoss, "[standalone] run: the dataset ends before batch ",
                 batch, "; its files had ", batches_, " batches when it was described");
    current_ = std::move(*read);
  }
  const at::Tensor& whole = current_[field];
  STRATA_CHECK(whole.sizes() == at::IntArrayRef(shape), kDataLoss, "[standalone] run: batch ",
               batch, " has a field of ", whole.sizes(), "; the first batch's is of ",
               at::IntArrayRef(shape));
  return whole.narrow(0, begin, count);
}

}  // namespace strata::standalone
