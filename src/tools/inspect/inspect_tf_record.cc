#include <algorithm>
#include <iomanip>
#include <iostream>
#include <optional>

#include "data/files/tf_record_format.h"
#include "strata/core/error.h"
#include "strata/data/image_codec.h"
#include "strata/data/tf_example.h"
#include "strata/data/tf_record.h"
#include "tools/inspect/inspect.h"

namespace strata::tools {
namespace {

using data::TfExample;
using data::TfFeature;

// The bytes of an Example, or nullopt. Text hardly ever looks like one.
std::optional<TfExample> as_example(std::string_view record) {
  try {
    TfExample example = data::decode_example(record);
    if (!example.empty() || record == std::string_view("\x0A\0", 2)) return example;
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): that is the answer
  }
  return std::nullopt;
}

std::string shown(const std::string& bytes) {
  if (bytes.starts_with("\xFF\xD8\xFF") || bytes.starts_with("\x89PNG")) {
    try {
      const data::ImageInfo info = data::image_info(bytes);
      return str_cat('<', info.format, ", ", info.height, " x ", info.width, " x ", info.channels,
                     ", ", counted(static_cast<int64_t>(bytes.size()), "byte"), '>');
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): then it is shown as bytes
    }
  }
  return quoted(bytes, 40);
}
std::string shown(float value) { return str_cat(value); }
std::string shown(int64_t value) { return str_cat(value); }

template <class T>
void print_list(const char* type, const std::vector<T>& values) {
  constexpr size_t kShown = 8;
  std::cout << std::setw(6) << type << std::setw(6) << values.size() << "  ";
  for (size_t i = 0; i < std::min(values.size(), kShown); ++i)
    std::cout << (i == 0 ? "" : ", ") << shown(values[i]);
  std::cout << (values.size() > kShown ? ", ...\n" : "\n");
}

struct PrintValues {
  void operator()(std::monostate) const { std::cout << "  none\n"; }
  void operator()(const std::vector<std::string>& v) const { print_list("bytes", v); }
  void operator()(const std::vector<float>& v) const { print_list("float", v); }
  void operator()(const std::vector<int64_t>& v) const { print_list("int64", v); }
};

void print_record(int64_t number, std::string_view record) {
  std::cout << "record " << number << ": " << counted(static_cast<int64_t>(record.size()), "byte");
  const auto example = as_example(record);
  if (!example) {
    std::cout << "  " << quoted(record) << '\n';
    return;
  }
  std::cout << ", a tf.train.Example\n";
  size_t width = 0;
  for (const auto& [name, unused] : *example) width = std::max(width, name.size());
  for (const auto& [name, feature] : *example) {
    std::cout << "  " << std::left << std::setw(static_cast<int>(width)) << name << std::right;
    std::visit(PrintValues(), feature.values);
  }
}

void print_tf_record(const InspectPath& path, const InspectOptions& options) {
  const auto damaged = std::make_shared<std::atomic<int64_t>>(0);
  const data::Dataset records =
      data::tf_records({path.path}, {.skip_damaged = true, .damaged = damaged});
  int64_t count = 0, bytes = 0, shortest = 0, longest = 0;
  data::Iterator iterator = records.iterator(0);
  while (const auto record = iterator.next()) {
    const int64_t size = record->x().numel();
    if (count < options.limit) print_record(count, data::bytes_of(record->x()));
    shortest = count == 0 ? size : std::min(shortest, size);
    longest = std::max(longest, size);
    bytes += size;
    ++count;
  }
  std::cout << counted(count, "record");
  if (count > 0)
    std::cout << " of " << shortest << " to " << counted(longest, "byte") << ", "
              << counted(bytes, "byte") << " in all";
  if (*damaged > 0) std::cout << "; " << *damaged << " damaged, left out";
  std::cout << '\n';
}

bool is_tf_record(const InspectPath& path) {
  uint64_t length = 0;
  return (path.start.size() >= data::detail::kRecordHeader &&
          data::detail::parse_record_header(path.start.data(), length)) ||
         path.name().ends_with(".tfrecord") || path.name().ends_with(".tfrecords");
}

}  // namespace

const InspectKind kInspectTfRecord = {"TFRecord file", is_tf_record, print_tf_record};

}  // namespace strata::tools
