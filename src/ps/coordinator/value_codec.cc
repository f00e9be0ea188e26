#include "ps/coordinator/value_codec.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include <cstring>
#include <limits>

#include "core/checked_size.h"
#include "core/proto_wire.h"

namespace strata::ps {
namespace {

using strata::detail::WireReader;
using strata::detail::WireType;

// Numbers are the wire's: never reuse one. A Value has one of these fields, or none.
enum ValueField : uint32_t {
  kTensor = 1,
  kDouble = 2,
  kInt = 3,
  kBool = 4,
  kString = 5,
  kList = 6,
  kResource = 7,
};
constexpr uint32_t kElement = 1;  // of a list

constexpr int kMaxDepth = 32;
constexpr int64_t kMaxTensor = int64_t{1} << 40;  // bytes

constexpr strata::detail::WireText kValueText = {"[ps] values", "values"};

class Writer {
 public:
  explicit Writer(EncodedValues& out) : out_(out) {}

  void list(std::span<const Value> values, std::string& to, int depth) {
    STRATA_CHECK(depth < kMaxDepth, kInvalidArgument, "[ps] Value: got lists in lists, more than ",
                 kMaxDepth, " deep");
    std::string one;
    for (const Value& each : values) {
      one.clear();
      value(each, one, depth);
      strata::detail::put_bytes(kElement, one, to);
    }
  }

 private:
  void value(const Value& value, std::string& to, int depth) {
    switch (value.kind()) {
      case Value::Kind::kNothing:
        return;
      case Value::Kind::kTensor:
        return tensor(value.tensor(), to);
      case Value::Kind::kDouble:
        return strata::detail::put_double(kDouble, value.as_double(), to);
      case Value::Kind::kInt:
        return strata::detail::put_integer(kInt, value.as_int(), to);
      case Value::Kind::kBool:
        return strata::detail::put_integer(kBool, value.as_bool() ? 1 : 0, to);
      case Value::Kind::kString:
        return strata::detail::put_bytes(kString, value.text(), to);
      case Value::Kind::kList: {
        std::string all;
        list(value.list(), all, depth + 1);
        return strata::detail::put_bytes(kList, all, to);
      }
      case Value::Kind::kResource:
        return strata::detail::put_integer(kResource, static_cast<int64_t>(value.resource().number),
                                           to);
    }
  }

  void tensor(const at::Tensor& tensor, std::string& to) {
    TensorMessage message;
    at::Tensor dense;
    if (tensor.defined()) {
      STRATA_CHECK(tensor.layout() == at::kStrided && !c10::isQIntType(tensor.scalar_type()),
                   kInvalidArgument, "[ps] Value: got a tensor of ", tensor.toString(),
                   "; expected a dense one; call to_dense() or dequantize()");
      // Views that are conjugate or negative in name only are made so.
      dense = tensor.detach().to(at::kCPU).resolve_conj().resolve_neg().contiguous();
      message.dtype = static_cast<uint64_t>(dense.scalar_type());
      message.sizes = dense.sizes().vec();
      const size_t bytes = dense.nbytes();
      if (bytes <= kInlineTensor && inlined_ + bytes <= kInlineTensors) {
        inlined_ += bytes;
        message.data.emplace(static_cast<const char*>(dense.const_data_ptr()), bytes);
      } else {
        message.follows = true;
        out_.tensors.push_back(dense);
      }
    }
    std::string text;
    strata::detail::write_message(message, text);
    strata::detail::put_bytes(kTensor, text, to);
  }

  EncodedValues& out_;
  size_t inlined_ = 0;
};

class Reader {
 public:
  Reader(std::string_view whole, std::vector<at::Tensor>& follow, size_t limit)
      : whole_(whole), follow_(follow), limit_(limit) {}

  std::vector<Value> list(std::string_view bytes, int depth) {
    std::vector<Value> values;
    WireReader reader(bytes, whole_, kValueText);
    if (depth >= kMaxDepth) reader.fail("lists in lists without end");
    while (!reader.at_end()) {
      WireType type;
      const uint32_t field = reader.field(type);
      if (field == kElement) {
        expect(reader, type, WireType::kBytes);
        values.push_back(value(reader.bytes(), depth));
      } else {
        reader.skip(type);
      }
    }
    return values;
  }

 private:
  static void expect(const WireReader& reader, WireType type, WireType wanted) {
    if (type != wanted) reader.fail("a field of another kind");
  }

  Value value(std::string_view bytes, int depth) {
    Value found;
    WireReader reader(bytes, whole_, kValueText);
    while (!reader.at_end()) {
      WireType type;
      const uint32_t field = reader.field(type);
      switch (field) {
        case kTensor:
          expect(reader, type, WireType::kBytes);
          found = tensor(reader.bytes());
          break;
        case kDouble:
          expect(reader, type, WireType::kFixed64);
          found = std::bit_cast<double>(reader.fixed<uint64_t>());
          break;
        case kInt:
          expect(reader, type, WireType::kVarint);
          found = static_cast<int64_t>(reader.varint());
          break;
        case kBool:
          expect(reader, type, WireType::kVarint);
          found = reader.varint() != 0;
          break;
        case kString:
          expect(reader, type, WireType::kBytes);
          found = reader.bytes();
          break;
        case kList:
          expect(reader, type, WireType::kBytes);
          found = list(reader.bytes(), depth + 1);
          break;
        case kResource:
          expect(reader, type, WireType::kVarint);
          found = ResourceId{reader.varint()};
          break;
        default:
          reader.skip(type);
      }
    }
    return found;
  }

  at::Tensor tensor(std::string_view bytes) {
    if (bytes.empty()) return {};
    WireReader reader(bytes, whole_, kValueText);
    TensorMessage message;
    strata::detail::read_message(message, reader);
    auto& [number, sizes, data, follows] = message;
    if (!number || data.has_value() == follows) reader.fail("a tensor without dtype or bytes");
    const auto dtype = static_cast<at::ScalarType>(*number);
    sizes.push_back(static_cast<int64_t>(c10::elementSize(dtype)));
    const auto bytes_of_all = strata::detail::checked_product(std::span<const int64_t>(sizes));
    sizes.pop_back();
    if (!bytes_of_all || *bytes_of_all > kMaxTensor) reader.fail("a tensor of more than 1 TiB");
    const auto size = static_cast<uint64_t>(*bytes_of_all);
    if (data && data->size() != size) reader.fail("a tensor of other sizes than its bytes");
    if (follows) {
      STRATA_CHECK(size <= limit_ - following_, kResourceExhausted,
                   "[ps] values: got tensors of more than ", limit_,
                   " bytes in one message; expected no more than this machine has memory");
      following_ += static_cast<size_t>(size);
    }
    at::Tensor made = at::empty(sizes, at::TensorOptions(dtype));
    if (follows) {
      follow_.push_back(made);
    } else if (size > 0) {
      std::memcpy(made.mutable_data_ptr(), data->data(), data->size());
    }
    return made;
  }

  const std::string_view whole_;
  std::vector<at::Tensor>& follow_;
  const size_t limit_;
  size_t following_ = 0;
};

}  // namespace

const char* TensorMessage::dtype_problem() const {
  const bool known = *dtype < static_cast<uint64_t>(at::ScalarType::NumOptions) &&
                     *dtype != static_cast<uint64_t>(at::ScalarType::Undefined) &&
                     !c10::isQIntType(static_cast<at::ScalarType>(*dtype));
  return known ? nullptr : "an invalid dtype";
}

const char* TensorMessage::sizes_problem() const {
  constexpr size_t kMaxDims = 64;
  return sizes.back() < 0 || sizes.size() > kMaxDims ? "invalid sizes" : nullptr;
}

EncodedValues encode_values(std::span<const Value> values) {
  EncodedValues out;
  Writer(out).list(values, out.text, 0);
  STRATA_CHECK(out.text.size() <= kMaxValuesText, kInvalidArgument,
               "[ps] Value: got lists and texts of ", out.text.size(), " bytes; expected at most ",
               kMaxValuesText, "; put numbers into a tensor, which may be of any size");
  return out;
}

std::vector<Value> decode_values(std::string_view bytes, std::vector<at::Tensor>& follow,
                                 size_t limit) {
  return Reader(bytes, follow, limit).list(bytes, 0);
}

}  // namespace strata::ps
