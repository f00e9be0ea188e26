#include "summary/event_decoder.h"

#include <bit>
#include <cmath>

#include "core/proto_wire.h"

// proto/tensorflow/event.proto has the messages.
namespace strata::summary::detail {
namespace {

using strata::detail::WireReader;
using strata::detail::WireText;
using strata::detail::WireType;

constexpr WireText kText = {"[summary] read_events", "a tensorflow.Event"};

// Calls fn(field, type, reader) for each field; it returns false to skip one.
template <class Fn>
void for_each_field(std::string_view message, std::string_view whole, Fn fn) {
  WireReader reader(message, whole, kText);
  while (!reader.at_end()) {
    WireType type{};
    const uint32_t field = reader.field(type);
    if (!fn(field, type, reader)) reader.skip(type);
  }
}

double half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, -24);
  } else {
    value = std::ldexp(1024 + mantissa, exponent - 25);
  }
  return bits >> 15 != 0 ? -value : value;
}

enum DataType : uint64_t {
  kNone = 0,
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kString = 7,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kHalf = 19,
};

const char* name_of(uint64_t type) {
  switch (type) {
    case kNone:
      return "";
    case kFloat:
      return "float32";
    case kDouble:
      return "float64";
    case kInt32:
      return "int32";
    case kUint8:
      return "uint8";
    case kString:
      return "string";
    case kInt64:
      return "int64";
    case kBool:
      return "bool";
    case kBfloat16:
      return "bfloat16";
    case kHalf:
      return "float16";
    default:
      return "another";
  }
}

double from_float_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

// The numbers of tensor_content.
void read_content(uint64_t type, std::string_view content, std::string_view whole,
                  std::vector<double>& out) {
  WireReader reader(content, whole, kText);
  while (!reader.at_end()) {
    switch (type) {
      case kFloat:
        out.push_back(from_float_bits(reader.fixed<uint32_t>()));
        break;
      case kDouble:
        out.push_back(std::bit_cast<double>(reader.fixed<uint64_t>()));
        break;
      case kInt32:
        out.push_back(static_cast<int32_t>(reader.fixed<uint32_t>()));
        break;
      case kInt64:
        out.push_back(static_cast<double>(static_cast<int64_t>(reader.fixed<uint64_t>())));
        break;
      case kUint8:
      case kBool:
        out.push_back(reader.fixed<uint8_t>());
        break;
      case kHalf:
        out.push_back(half(reader.fixed<uint16_t>()));
        break;
      case kBfloat16:
        out.push_back(from_float_bits(static_cast<uint32_t>(reader.fixed<uint16_t>()) << 16));
        break;
      default:
        return;
    }
  }
}

// The repeated fields float_val = 5, double_val = 6, int_val = 7, int64_val = 10, bool_val = 11,
// half_val = 13; packed or not.
bool read_numbers(uint32_t field, uint64_t dtype, WireType type, WireReader& reader,
                  std::string_view whole, std::vector<double>& out) {
  const auto one = [&](WireReader& from) {
    switch (field) {
      case 5:
        out.push_back(from_float_bits(from.fixed<uint32_t>()));
        break;
      case 6:
        out.push_back(std::bit_cast<double>(from.fixed<uint64_t>()));
        break;
      case 13: {
        const auto bits = static_cast<uint16_t>(from.varint());
        out.push_back(dtype == kBfloat16 ? from_float_bits(static_cast<uint32_t>(bits) << 16)
                                         : half(bits));
        break;
      }
      default:
        out.push_back(static_cast<double>(static_cast<int64_t>(from.varint())));
    }
  };
  const WireType own = field == 5   ? WireType::kFixed32
                       : field == 6 ? WireType::kFixed64
                                    : WireType::kVarint;
  if (type == own) {
    one(reader);
  } else if (type == WireType::kBytes) {
    WireReader packed(reader.bytes(), whole, kText);
    while (!packed.at_end()) one(packed);
  } else {
    return false;
  }
  return true;
}

std::vector<int64_t> read_shape(std::string_view message, std::string_view whole) {
  std::vector<int64_t> shape;
  for_each_field(message, whole, [&](uint32_t field, WireType type, WireReader& reader) {
    if (field != 2 || type != WireType::kBytes) return false;
    int64_t size = 0;
    for_each_field(reader.bytes(), whole, [&](uint32_t f, WireType t, WireReader& dim) {
      if (f != 1 || t != WireType::kVarint) return false;
      size = static_cast<int64_t>(dim.varint());
      return true;
    });
    shape.push_back(size);
    return true;
  });
  return shape;
}

SummaryTensor read_tensor(std::string_view message, std::string_view whole) {
  SummaryTensor tensor;
  uint64_t dtype = kNone;
  std::string_view content;
  for_each_field(message, whole, [&](uint32_t field, WireType type, WireReader& reader) {
    if (field == 1 && type == WireType::kVarint) {
      dtype = reader.varint();
    } else if (field == 2 && type == WireType::kBytes) {
      tensor.shape = read_shape(reader.bytes(), whole);
    } else if (field == 4 && type == WireType::kBytes) {
      content = reader.bytes();
    } else if (field == 8 && type == WireType::kBytes) {
      tensor.strings.emplace_back(reader.bytes());
    } else if ((field >= 5 && field <= 7) || field == 10 || field == 11 || field == 13) {
      return read_numbers(field, dtype, type, reader, whole, tensor.numbers);
    } else {
      return false;
    }
    return true;
  });
  tensor.dtype = name_of(dtype);
  if (tensor.numbers.empty()) read_content(dtype, content, whole, tensor.numbers);
  return tensor;
}

void read_metadata(std::string_view message, std::string_view whole, SummaryValue& out) {
  for_each_field(message, whole, [&](uint32_t field, WireType type, WireReader& reader) {
    if (field != 1 || type != WireType::kBytes) return false;
    for_each_field(reader.bytes(), whole, [&](uint32_t f, WireType t, WireReader& plugin) {
      if (t != WireType::kBytes || (f != 1 && f != 2)) return false;
      (f == 1 ? out.plugin : out.content) = plugin.bytes();
      return true;
    });
    return true;
  });
}

SummaryValue read_value(std::string_view message, std::string_view whole) {
  SummaryValue value;
  for_each_field(message, whole, [&](uint32_t field, WireType type, WireReader& reader) {
    if (field == 1 && type == WireType::kBytes) {
      value.tag = reader.bytes();
    } else if (field == 2 && type == WireType::kFixed32) {  // simple_value: before TensorFlow 2
      value.plugin = "scalars";
      value.tensor = {.dtype = "float32",
                      .shape = {},
                      .numbers = {from_float_bits(reader.fixed<uint32_t>())},
                      .strings = {}};
    } else if (field == 8 && type == WireType::kBytes) {
      value.tensor = read_tensor(reader.bytes(), whole);
    } else if (field == 9 && type == WireType::kBytes) {
      read_metadata(reader.bytes(), whole, value);
    } else {
      return false;
    }
    return true;
  });
  return value;
}

}  // namespace

Event decode_event(std::string_view bytes) {
  Event event;
  for_each_field(bytes, bytes, [&](uint32_t field, WireType type, WireReader& reader) {
    if (field == 1 && type == WireType::kFixed64) {
      event.wall_time = std::bit_cast<double>(reader.fixed<uint64_t>());
    } else if (field == 2 && type == WireType::kVarint) {
      event.step = static_cast<int64_t>(reader.varint());
    } else if (field == 3 && type == WireType::kBytes) {
      event.file_version = reader.bytes();
    } else if (field == 4 && type == WireType::kBytes) {
      event.graph_def = reader.bytes();
    } else if (field == 5 && type == WireType::kBytes) {
      for_each_field(reader.bytes(), bytes, [&](uint32_t f, WireType t, WireReader& summary) {
        if (f != 1 || t != WireType::kBytes) return false;
        event.values.push_back(read_value(summary.bytes(), bytes));
        return true;
      });
    } else {
      return false;
    }
    return true;
  });
  return event;
}

}  // namespace strata::summary::detail
