#include "data/files/tf_feature.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace strata::data::detail {
namespace {

void count_strings(std::string_view list, std::string_view whole, FeatureBytes& out) {
  WireReader reader(list, whole);
  while (!reader.at_end()) {
    WireType type{};
    if (reader.field(type) == 1 && type == WireType::kBytes) {
      out.total_bytes += reader.bytes().size();
      ++out.count;
    } else {
      reader.skip(type);
    }
  }
}

void count_floats(std::string_view list, std::string_view whole, FeatureBytes& out) {
  WireReader reader(list, whole);
  while (!reader.at_end()) {
    WireType type{};
    const bool value = reader.field(type) == 1;
    if (value && type == WireType::kBytes) {
      const size_t size = reader.bytes().size();
      if (size % sizeof(float) != 0) reader.fail("floats whose size is no multiple of 4");
      out.count += size / sizeof(float);
    } else {
      out.count += value && type == WireType::kFixed32;
      reader.skip(type);
    }
  }
}

void count_integers(std::string_view list, std::string_view whole, FeatureBytes& out) {
  WireReader reader(list, whole);
  while (!reader.at_end()) {
    WireType type{};
    const bool value = reader.field(type) == 1;
    if (value && type == WireType::kBytes) {
      WireReader packed(reader.bytes(), whole);
      for (; !packed.at_end(); ++out.count) packed.varint();
    } else {
      out.count += value && type == WireType::kVarint;
      reader.skip(type);
    }
  }
}

void copy_floats(std::string_view bytes, float* out) {
  if (bytes.empty()) return;  // `out` may be null
  if constexpr (std::endian::native == std::endian::little) {
    std::memcpy(out, bytes.data(), bytes.size());
  } else {
    for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
      char swapped[sizeof(float)];
      std::reverse_copy(bytes.data() + i, bytes.data() + i + sizeof(float), swapped);
      std::memcpy(out + i / sizeof(float), swapped, sizeof(float));
    }
  }
}

}  // namespace

void read_feature(std::string_view message, std::string_view whole, FeatureBytes& out) {
  out.type.reset();
  out.lists.clear();
  out.count = out.total_bytes = 0;
  WireReader reader(message, whole);
  while (!reader.at_end()) {
    WireType type{};
    const uint32_t field = reader.field(type);
    if (field < 1 || field > 3 || type != WireType::kBytes) {
      reader.skip(type);
      continue;
    }
    const auto kind = static_cast<FeatureType>(field - 1);
    if (out.type && *out.type != kind) out.lists.clear();  // of a oneof, the last counts
    out.type = kind;
    out.lists.push_back(reader.bytes());
  }
  for (const std::string_view list : out.lists) {
    switch (*out.type) {
      case FeatureType::kBytes:
        count_strings(list, whole, out);
        break;
      case FeatureType::kFloat:
        count_floats(list, whole, out);
        break;
      case FeatureType::kInt64:
        count_integers(list, whole, out);
        break;
    }
  }
}

void fill(const FeatureBytes& feature, float* out) {
  for (const std::string_view list : feature.lists) {
    WireReader reader(list, list);
    while (!reader.at_end()) {
      WireType type{};
      const bool value = reader.field(type) == 1;
      if (value && (type == WireType::kBytes || type == WireType::kFixed32)) {
        const std::string_view bytes =
            type == WireType::kBytes ? reader.bytes() : reader.take(sizeof(float));
        copy_floats(bytes, out);
        out += bytes.size() / sizeof(float);
      } else {
        reader.skip(type);
      }
    }
  }
}

void fill(const FeatureBytes& feature, int64_t* out) {
  for (const std::string_view list : feature.lists) {
    WireReader reader(list, list);
    while (!reader.at_end()) {
      WireType type{};
      const bool value = reader.field(type) == 1;
      if (value && type == WireType::kBytes) {
        WireReader packed(reader.bytes(), list);
        while (!packed.at_end()) *out++ = static_cast<int64_t>(packed.varint());
      } else if (value && type == WireType::kVarint) {
        *out++ = static_cast<int64_t>(reader.varint());
      } else {
        reader.skip(type);
      }
    }
  }
}

}  // namespace strata::data::detail
