#include "checkpoint/safetensors_format.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/checked_size.h"
#include "strata/core/error.h"
#include "strata/core/json.h"

namespace strata::checkpoint {
namespace {

// The reference reader takes no longer header.
constexpr uint64_t kMaxHeader = 100'000'000;
constexpr uint64_t kAlignment = 8;

struct Dtype {
  std::string_view name;
  at::ScalarType type;
};

// In the reference writer's order; files hold the last ones first.
constexpr Dtype kDtypes[] = {
    {"BOOL", at::ScalarType::Bool},
    {"U8", at::ScalarType::Byte},
    {"I8", at::ScalarType::Char},
    {"F8_E5M2", at::ScalarType::Float8_e5m2},
    {"F8_E4M3", at::ScalarType::Float8_e4m3fn},
    {"F8_E8M0", at::ScalarType::Float8_e8m0fnu},
    {"I16", at::ScalarType::Short},
    {"U16", at::ScalarType::UInt16},
    {"F16", at::ScalarType::Half},
    {"BF16", at::ScalarType::BFloat16},
    {"I32", at::ScalarType::Int},
    {"U32", at::ScalarType::UInt32},
    {"F32", at::ScalarType::Float},
    {"C64", at::ScalarType::ComplexFloat},
    {"F64", at::ScalarType::Double},
    {"I64", at::ScalarType::Long},
    {"U64", at::ScalarType::UInt64},
};

size_t rank_of(at::ScalarType type) {
  size_t rank = 0;
  while (kDtypes[rank].type != type) ++rank;
  return rank;
}

[[noreturn]] void damaged_file(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::kDataLoss, str_cat("[safetensors] ", path, ": ", what));
}

TensorRecord parse_record(const std::string& name, const Json& json, const std::string& path) {
  TensorRecord record;
  record.name = name;
  record.dtype = dtype_of(json.at("dtype").as_string(), name, path);
  for (const Json& size : json.at("shape").as_array()) {
    const int64_t value = size.as_int();
    if (value < 0) damaged_file(path, str_cat("tensor '", name, "': got size ", value));
    record.shape.push_back(value);
  }
  std::vector<int64_t> factors = record.shape;
  factors.push_back(static_cast<int64_t>(c10::elementSize(record.dtype)));
  const auto product = strata::detail::checked_product(std::span<const int64_t>(factors));
  if (!product) damaged_file(path, str_cat("tensor '", name, "': got a shape beyond 2^63 bytes"));
  const auto bytes = static_cast<uint64_t>(*product);
  const Json::Array& offsets = json.at("data_offsets").as_array();
  if (offsets.size() != 2 || offsets[0].as_int() < 0 || offsets[1].as_int() < offsets[0].as_int()) {
    damaged_file(path, str_cat("tensor '", name, "': expected data_offsets [begin, end]"));
  }
  record.begin = static_cast<uint64_t>(offsets[0].as_int());
  record.end = static_cast<uint64_t>(offsets[1].as_int());
  if (record.end - record.begin != bytes) {
    damaged_file(path, str_cat("tensor '", name, "': got ", record.end - record.begin,
                               " bytes; its dtype and shape take ", bytes));
  }
  return record;
}

}  // namespace

uint64_t TensorRecord::bytes() const {
  uint64_t result = c10::elementSize(dtype);
  for (const int64_t size : shape) result *= static_cast<uint64_t>(size);
  return result;
}

std::string_view dtype_name(at::ScalarType dtype, const std::string& tensor) {
  for (const Dtype& each : kDtypes) {
    if (each.type == dtype) return each.name;
  }
  throw Error(ErrorCode::kUnimplemented,
              str_cat("[safetensors] tensor '", tensor, "': got dtype ", c10::toString(dtype),
                      ", which the format does not have; convert it (view_as_real, int_repr)"));
}

at::ScalarType dtype_of(std::string_view name, const std::string& tensor, const std::string& path) {
  for (const Dtype& each : kDtypes) {
    if (each.name == name) return each.type;
  }
  throw Error(ErrorCode::kUnimplemented,
              str_cat("[safetensors] ", path, ": tensor '", tensor, "': got dtype ", name,
                      ", which libtorch does not have"));
}

std::string make_header(std::vector<TensorRecord>& records, const Metadata& metadata) {
  for (const TensorRecord& record : records) (void)dtype_name(record.dtype, record.name);
  std::sort(records.begin(), records.end(), [](const TensorRecord& a, const TensorRecord& b) {
    const size_t rank_a = rank_of(a.dtype);
    const size_t rank_b = rank_of(b.dtype);
    return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
  });
  Json::Object header;
  if (!metadata.empty()) {
    Json all = Json::object();
    for (const auto& [key, value] : metadata) all.set(key, value);
    header.emplace_back("__metadata__", std::move(all));
  }
  uint64_t offset = 0;
  for (TensorRecord& record : records) {
    record.begin = offset;
    record.end = offset += record.bytes();
    Json shape = Json::array();
    for (const int64_t size : record.shape) shape.push_back(size);
    Json entry = Json::object();
    entry.set("dtype", dtype_name(record.dtype, record.name));
    entry.set("shape", std::move(shape));
    entry.set("data_offsets",
              Json::array({static_cast<int64_t>(record.begin), static_cast<int64_t>(record.end)}));
    header.emplace_back(record.name, std::move(entry));
  }
  std::string text = Json(std::move(header)).dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes += static_cast<char>(uint64_t{text.size()} >> shift & 0xFF);
  }
  return bytes + text;
}

Header parse_header(std::span<const std::byte> start, uint64_t file_size, const std::string& path) {
  if (start.size() < 8) {
    damaged_file(path, str_cat("got ", file_size, " bytes; a safetensors file has at least 8"));
  }
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | std::to_integer<uint64_t>(start[size_t(i)]);
  if (length > kMaxHeader || length > file_size - 8) {
    damaged_file(path, str_cat("got a header of ", length, " bytes in a file of ", file_size,
                               "; not a safetensors file, or cut short"));
  }
  if (start.size() - 8 < length) damaged_file(path, "the header is cut short");
  const std::string_view text(reinterpret_cast<const char*>(start.data()) + 8, length);
  Header header;
  header.data_begin = 8 + length;
  if (!text.starts_with('{')) damaged_file(path, "the header does not start with '{'");
  try {
    const Json json = Json::parse(text);
    for (const auto& [name, value] : json.as_object()) {
      if (name == "__metadata__") {
        for (const auto& [key, item] : value.as_object()) header.metadata[key] = item.as_string();
      } else {
        header.records.push_back(parse_record(name, value, path));
      }
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDataLoss || std::string_view(error.what()).starts_with("[safe"))
      throw;
    damaged_file(path, str_cat("its header: ", error.what()));
  }
  std::stable_sort(header.records.begin(), header.records.end(),
                   [](const TensorRecord& a, const TensorRecord& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
                   });
  uint64_t offset = 0;
  for (const TensorRecord& record : header.records) {
    if (record.begin != offset) {
      damaged_file(path, str_cat("tensor '", record.name, "' begins at ", record.begin,
                                 "; expected ", offset, ", where the one before ends"));
    }
    offset = record.end;
  }
  if (header.data_begin + offset != file_size) {
    damaged_file(path, str_cat("got ", file_size, " bytes; expected ", header.data_begin + offset,
                               header.data_begin + offset > file_size ? " (cut short)"
                                                                      : " (something was added)"));
  }
  return header;
}

Header read_header(const ReadableFile& file, const std::string& path) {
  std::vector<std::byte> start(8);
  start.resize(file.read(0, start));
  if (start.size() == 8) {
    uint64_t length = 0;
    std::memcpy(&length, start.data(), 8);
    if (length <= kMaxHeader && length <= file.size() - 8) {
      start.resize(8 + length);
      start.resize(8 + file.read(8, std::span(start).subspan(8)));
    }
  }
  return parse_header(start, file.size(), path);
}

}  // namespace strata::checkpoint
