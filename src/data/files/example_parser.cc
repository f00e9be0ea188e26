#include "strata/data/tf_example.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "data/bytes.h"
#include "data/files/tf_feature.h"
#include "strata/core/error.h"
#include "strata/data/example.h"

namespace strata::data {
namespace {

using detail::empty_tensor;
using detail::FeatureBytes;

enum class Kind { kFixed, kVariable, kSequence };

struct Feature {
  std::string name;
  Kind kind;
  FeatureType type;
  std::vector<int64_t> shape;
  TfFeature default_value;
  int64_t block = 1;  // product(shape)

  bool has_default() const { return default_value.values.index() != 0; }
};

const char* name_of(FeatureType type) {
  switch (type) {
    case FeatureType::kBytes:
      return "strings";
    case FeatureType::kFloat:
      return "floats";
    case FeatureType::kInt64:
      break;
  }
  return "integers";
}

size_t size_of(const TfFeature& list) {
  return std::visit(
      [](const auto& values) -> size_t {
        if constexpr (std::is_same_v<std::decay_t<decltype(values)>, std::monostate>) {
          return 0;
        } else {
          return values.size();
        }
      },
      list.values);
}

Feature make_feature(std::string name, const FeatureSpec& spec) {
  Feature feature{.name = std::move(name),
                  .kind = static_cast<Kind>(spec.index()),
                  .type = std::visit([](const auto& s) { return s.type; }, spec),
                  .shape = {},
                  .default_value = {}};
  if (const auto* fixed = std::get_if<FixedLenFeature>(&spec)) {
    feature.shape = fixed->shape;
    feature.default_value = fixed->default_value;
  } else if (const auto* sequence = std::get_if<FixedLenSequenceFeature>(&spec)) {
    feature.shape = sequence->shape;
    feature.default_value = sequence->default_value;
  }
  for (const int64_t size : feature.shape) {
    STRATA_CHECK(size >= 0, kInvalidArgument, "[data] ExampleParser: feature \"", feature.name,
                 "\": got shape ", at::IntArrayRef(feature.shape), "; expected sizes of 0 or more");
    feature.block *= size;
  }
  STRATA_CHECK(feature.kind != Kind::kSequence || feature.block > 0, kInvalidArgument,
               "[data] ExampleParser: feature \"", feature.name, "\": got shape ",
               at::IntArrayRef(feature.shape),
               " of a sequence; expected a block of at least one value");
  if (feature.has_default()) {
    const auto type = static_cast<FeatureType>(feature.default_value.values.index() - 1);
    const size_t size = size_of(feature.default_value);
    STRATA_CHECK(type == feature.type, kInvalidArgument, "[data] ExampleParser: feature \"",
                 feature.name, "\": got a default of ", name_of(type), "; expected ",
                 name_of(feature.type));
    STRATA_CHECK(
        size == 1 || (feature.kind == Kind::kFixed && size == static_cast<size_t>(feature.block)),
        kInvalidArgument, "[data] ExampleParser: feature \"", feature.name, "\": got ", size,
        " default values; expected 1",
        feature.kind == Kind::kFixed ? str_cat(" or ", feature.block) : std::string());
  }
  return feature;
}

// Row numbers in messages, where there are rows.
struct Where {
  const Feature& feature;
  size_t row;
  bool batch;
};
std::ostream& operator<<(std::ostream& out, const Where& where) {
  out << "[data] parse_example: feature \"" << where.feature.name << '"';
  if (where.batch) out << ", row " << where.row << " of the batch";
  return out << ": ";
}

// Represents a count: the row gets the default.
constexpr size_t kDefault = static_cast<size_t>(-1);

size_t checked_count(const Feature& feature, const FeatureBytes& found, size_t row, bool batch) {
  const Where where{feature, row, batch};
  if (!found.type) {
    if (feature.kind != Kind::kFixed) return 0;
    STRATA_CHECK(feature.has_default(), kInvalidArgument, where, "got no such feature; expected ",
                 feature.block, " ", name_of(feature.type),
                 "; give it a default_value, or make it a VarLenFeature");
    return kDefault;
  }
  STRATA_CHECK(*found.type == feature.type, kInvalidArgument, where, "got ", name_of(*found.type),
               "; expected ", name_of(feature.type));
  if (feature.kind == Kind::kFixed) {
    STRATA_CHECK(found.count == static_cast<size_t>(feature.block), kInvalidArgument, where, "got ",
                 found.count, " values; expected ", feature.block, ", for shape ",
                 at::IntArrayRef(feature.shape));
  } else if (feature.kind == Kind::kSequence) {
    STRATA_CHECK(found.count % static_cast<size_t>(feature.block) == 0, kInvalidArgument, where,
                 "got ", found.count, " values; expected a multiple of ", feature.block,
                 ", for blocks of shape ", at::IntArrayRef(feature.shape));
  }
  return found.count;
}

/// One feature of all rows.
class Column {
 public:
  Column(const Feature& feature, std::span<const FeatureBytes> rows, size_t stride, size_t index,
         bool batch)
      : feature_(feature), batch_(batch) {
    for (size_t r = 0; r * stride + index < rows.size(); ++r) {
      rows_.push_back(&rows[r * stride + index]);
      counts_.push_back(checked_count(feature, *rows_.back(), r, batch));
      longest_ = counts_.back() == kDefault ? longest_ : std::max(longest_, counts_.back());
    }
  }

  ParsedFeature build() {
    ParsedFeature out;
    switch (feature_.type) {
      case FeatureType::kBytes:
        build_strings(out);
        break;
      case FeatureType::kFloat:
        out.values = empty_tensor(sizes(), at::kFloat);
        write(static_cast<float*>(out.values.mutable_data_ptr()));
        break;
      case FeatureType::kInt64:
        out.values = empty_tensor(sizes(), at::kLong);
        write(static_cast<int64_t*>(out.values.mutable_data_ptr()));
        break;
    }
    if (batch_ && feature_.kind == Kind::kVariable) add_row_splits(out);
    if (batch_ && feature_.kind == Kind::kSequence) add_lengths(out);
    return out;
  }

 private:
  // Values of row r in the result, padding included.
  size_t width(size_t r) const {
    switch (feature_.kind) {
      case Kind::kFixed:
        return static_cast<size_t>(feature_.block);
      case Kind::kVariable:
        return counts_[r];
      case Kind::kSequence:
        break;
    }
    return longest_;
  }

  size_t total() const {
    size_t all = 0;
    for (size_t r = 0; r < rows_.size(); ++r) all += width(r);
    return all;
  }

  std::vector<int64_t> sizes() const {
    if (feature_.kind == Kind::kVariable) return {static_cast<int64_t>(total())};
    std::vector<int64_t> sizes;
    if (batch_) sizes.push_back(static_cast<int64_t>(rows_.size()));
    if (feature_.kind == Kind::kSequence)
      sizes.push_back(static_cast<int64_t>(longest_) / feature_.block);
    sizes.insert(sizes.end(), feature_.shape.begin(), feature_.shape.end());
    return sizes;
  }

  // Default `i` of a row's values.
  template <class T>
  T default_at(size_t i) const {
    const auto* list = std::get_if<std::vector<T>>(&feature_.default_value.values);
    if (list == nullptr) return T{};
    return list->size() == 1 ? list->front() : (*list)[i];
  }

  template <class T>
  void write(T* out) const {
    for (size_t r = 0; r < rows_.size(); ++r) {
      const size_t from_bytes = counts_[r] == kDefault ? 0 : counts_[r];
      if (from_bytes > 0) detail::fill(*rows_[r], out);
      for (size_t i = from_bytes; i < width(r); ++i) out[i] = default_at<T>(i);
      out += width(r);
    }
  }

  std::string_view default_string(size_t i) const {
    const auto* list = std::get_if<std::vector<std::string>>(&feature_.default_value.values);
    if (list == nullptr) return {};
    return list->size() == 1 ? list->front() : (*list)[i];
  }

  void build_strings(ParsedFeature& out) const {
    std::vector<std::string_view> strings;
    strings.reserve(total());
    for (size_t r = 0; r < rows_.size(); ++r) {
      const size_t from_bytes = counts_[r] == kDefault ? 0 : counts_[r];
      if (from_bytes > 0)
        detail::for_each_string(*rows_[r], [&](std::string_view s) { strings.push_back(s); });
      for (size_t i = from_bytes; i < width(r); ++i) strings.push_back(default_string(i));
    }
    size_t bytes = 0;
    for (const auto s : strings) bytes += s.size();
    out.values = empty_tensor({static_cast<int64_t>(bytes)}, at::kByte);
    out.offsets = empty_tensor({static_cast<int64_t>(strings.size()) + 1}, at::kLong);
    auto* to = static_cast<char*>(out.values.mutable_data_ptr());
    auto* offsets = static_cast<int64_t*>(out.offsets.mutable_data_ptr());
    int64_t offset = 0;
    *offsets++ = 0;
    for (const auto s : strings) {
      if (!s.empty()) std::memcpy(to + offset, s.data(), s.size());
      offset += static_cast<int64_t>(s.size());
      *offsets++ = offset;
    }
  }

  void add_row_splits(ParsedFeature& out) const {
    out.row_splits = empty_tensor({static_cast<int64_t>(rows_.size()) + 1}, at::kLong);
    auto* splits = static_cast<int64_t*>(out.row_splits.mutable_data_ptr());
    *splits = 0;
    for (const size_t count : counts_) {
      splits[1] = splits[0] + static_cast<int64_t>(count);
      ++splits;
    }
  }

  void add_lengths(ParsedFeature& out) const {
    out.lengths = empty_tensor({static_cast<int64_t>(rows_.size())}, at::kLong);
    auto* lengths = static_cast<int64_t*>(out.lengths.mutable_data_ptr());
    for (const size_t count : counts_) *lengths++ = static_cast<int64_t>(count) / feature_.block;
  }

  const Feature& feature_;
  bool batch_;
  c10::SmallVector<const FeatureBytes*, 1> rows_;
  c10::SmallVector<size_t, 1> counts_;
  size_t longest_ = 0;
};

}  // namespace

struct ParsedExample::Names {
  std::vector<Feature> features;
  std::unordered_map<std::string_view, size_t> index;
};

struct ExampleParser::Impl : ParsedExample::Names {
  // Reads what is asked for out of `bytes`.
  void find(std::string_view bytes, std::span<FeatureBytes> found) const {
    c10::SmallVector<std::string_view, 8> messages(features.size());
    detail::for_each_feature(bytes, [&](std::string_view name, std::string_view message) {
      const auto place = index.find(name);
      if (place != index.end()) messages[place->second] = message;
    });
    for (size_t f = 0; f < features.size(); ++f) detail::read_feature(messages[f], bytes, found[f]);
  }
};

std::vector<std::string> ParsedFeature::strings() const {
  STRATA_CHECK(offsets.defined(), kInvalidArgument,
               "[data] ParsedFeature::strings: got a feature of numbers; expected strings");
  const std::string_view all = bytes_of(values);
  const auto* at = offsets.const_data_ptr<int64_t>();
  std::vector<std::string> list;
  for (int64_t i = 0; i + 1 < offsets.numel(); ++i)
    list.emplace_back(
        all.substr(static_cast<size_t>(at[i]), static_cast<size_t>(at[i + 1] - at[i])));
  return list;
}

const ParsedFeature& ParsedExample::operator[](std::string_view name) const {
  if (names_) {
    const auto place = names_->index.find(name);
    if (place != names_->index.end()) return features_[place->second];
  }
  throw Error(ErrorCode::kNotFound, str_cat("[data] ParsedExample: got a call for feature \"", name,
                                            "\"; expected one that the parser was asked for"));
}

Example ParsedExample::to_example() const {
  Example example;
  for (size_t f = 0; f < features_.size(); ++f) {
    const ParsedFeature& feature = features_[f];
    const Feature& spec = names_->features[f];
    const bool single = !batch_ && spec.kind == Kind::kFixed && spec.shape.empty();
    example.fields.push_back(feature.values);
    if (feature.offsets.defined() && !single) example.fields.push_back(feature.offsets);
    if (feature.row_splits.defined()) example.fields.push_back(feature.row_splits);
    if (feature.lengths.defined()) example.fields.push_back(feature.lengths);
  }
  return example;
}

ExampleParser::ExampleParser(std::vector<std::pair<std::string, FeatureSpec>> features) {
  auto impl = std::make_shared<Impl>();
  for (auto& [name, spec] : features) impl->features.push_back(make_feature(std::move(name), spec));
  for (size_t f = 0; f < impl->features.size(); ++f) {
    const bool added = impl->index.emplace(impl->features[f].name, f).second;
    STRATA_CHECK(added, kInvalidArgument, "[data] ExampleParser: got feature \"",
                 impl->features[f].name, "\" twice; expected each once");
  }
  impl_ = std::move(impl);
}

ParsedExample ExampleParser::parse(std::string_view bytes) const {
  std::vector<FeatureBytes> found(impl_->features.size());
  impl_->find(bytes, found);
  ParsedExample result;
  result.names_ = impl_;
  result.features_.reserve(found.size());
  for (size_t f = 0; f < found.size(); ++f)
    result.features_.push_back(Column(impl_->features[f], found, found.size(), f, false).build());
  return result;
}

ParsedExample ExampleParser::parse_batch(std::span<const std::string_view> batch) const {
  const size_t columns = impl_->features.size();
  std::vector<FeatureBytes> found(columns * batch.size());
  for (size_t r = 0; r < batch.size(); ++r) {
    try {
      impl_->find(batch[r], std::span(found).subspan(r * columns, columns));
    } catch (const Error& error) {
      throw Error(error.code(), str_cat(error.what(), " (row ", r, " of the batch)"));
    }
  }
  ParsedExample result;
  result.names_ = impl_;
  result.batch_ = true;
  for (size_t f = 0; f < columns; ++f)
    result.features_.push_back(Column(impl_->features[f], found, columns, f, true).build());
  return result;
}

Example ExampleParser::operator()(const Example& element) const {
  Example parsed = parse(bytes_of(element.x())).to_example();
  parsed.fields.insert(parsed.fields.end(), element.fields.begin() + 1, element.fields.end());
  return parsed;
}

ParsedExample parse_example(std::string_view bytes,
                            std::vector<std::pair<std::string, FeatureSpec>> features) {
  return ExampleParser(std::move(features)).parse(bytes);
}

}  // namespace strata::data
