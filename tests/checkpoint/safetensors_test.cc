// Beside files that Python's package wrote (tests/golden/make_safetensors.py).
#include "strata/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "checkpoint/describe.h"
#include "strata/core/file_system.h"
#include "support/expect_error.h"
#include "support/source_path.h"
#include "support/temp_folder.h"

namespace strata {
namespace {

using test::TempFolder;

const std::string kGolden = test::source_path("tests/golden/safetensors_");

struct Dtype {
  const char* name;
  at::ScalarType type;
};
constexpr Dtype kDtypes[] = {
    {"bool", at::kBool},         {"uint8", at::kByte},
    {"int8", at::kChar},         {"float8_e5m2", at::kFloat8_e5m2},
    {"int16", at::kShort},       {"float8_e4m3fn", at::kFloat8_e4m3fn},
    {"uint16", at::kUInt16},     {"float16", at::kHalf},
    {"bfloat16", at::kBFloat16}, {"int32", at::kInt},
    {"uint32", at::kUInt32},     {"float32", at::kFloat},
    {"float64", at::kDouble},    {"complex64", at::kComplexFloat},
    {"int64", at::kLong},        {"uint64", at::kUInt64},
};

/// As make_safetensors.py makes it.
at::Tensor made(const Dtype& dtype, at::IntArrayRef shape) {
  at::Tensor tensor = at::empty(shape, dtype.type);
  auto* bytes = static_cast<uint8_t*>(tensor.data_ptr());
  for (size_t i = 0; i < tensor.nbytes(); ++i) {
    bytes[i] = static_cast<uint8_t>((i * 37 + 11) % 251);
    if (dtype.type == at::kBool) bytes[i] &= 1;
  }
  return tensor;
}

NamedTensors all_dtypes() {
  NamedTensors tensors;
  for (const Dtype& dtype : kDtypes) {
    const std::string name = dtype.name;
    tensors.emplace_back(name + ".matrix", made(dtype, {2, 3}));
    tensors.emplace_back(name + ".scalar", made(dtype, {}));
    tensors.emplace_back(name + ".empty", made(dtype, {0, 4}));
  }
  return tensors;
}

bool same(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

TEST(SafetensorsTest, ReadsWhatPythonWrote) {
  const NamedTensors read = load_safetensors(kGolden + "dtypes.safetensors");
  std::map<std::string, at::Tensor> by_name(read.begin(), read.end());
  EXPECT_EQ(read.size(), 48U);
  for (const auto& [name, tensor] : all_dtypes()) {
    ASSERT_TRUE(by_name.contains(name)) << name;
    EXPECT_TRUE(same(by_name[name], tensor)) << name;
  }
  EXPECT_TRUE(load_safetensors(kGolden + "none.safetensors").empty());
}

TEST(SafetensorsTest, WritesTheBytesThatPythonWrites) {
  const TempFolder folder;
  const std::string path = folder.path() + "/file.safetensors";
  save_safetensors(path, all_dtypes());
  EXPECT_EQ(read_file(path), read_file(kGolden + "dtypes.safetensors"));
  save_safetensors(path, {});  // replaces
  EXPECT_EQ(read_file(path), read_file(kGolden + "none.safetensors"));
  save_safetensors(path,
                   {{"layer/weight", made({"", at::kFloat}, {3})},
                    {"na\xc3\xafve \"name\"\n", made({"", at::kChar}, {1})}},
                   {{"format", "pt"}});
  EXPECT_EQ(read_file(path), read_file(kGolden + "metadata.safetensors"));
  EXPECT_EQ(local_file_system().list(folder.path()).size(), 1U);
}

TEST(SafetensorsTest, StridesDoNotMatter) {
  const TempFolder folder;
  const std::string path = folder.path() + "/file.safetensors";
  const at::Tensor matrix = made({"", at::kFloat}, {3, 5});
  save_safetensors(path, {{"t", matrix.t()}});
  EXPECT_TRUE(same(load_safetensors(path)[0].second, matrix.t().contiguous()));
}

TEST(SafetensorsTest, TensorsThatTheFormatDoesNotHave) {
  const TempFolder folder;
  const std::string path = folder.path() + "/file.safetensors";
  expect_error(
      [&] {
        save_safetensors(path, {{"a", at::zeros({})}, {"a", at::zeros({})}});
      },
      "[safetensors] save: got the name 'a' twice, or one that the format keeps for "
      "itself");
  expect_error(
      [&] {
        save_safetensors(path, {{"__metadata__", at::zeros({})}});
      },
      "[safetensors] save: got the name '__metadata__' twice, or one that the format keeps "
      "for itself");
  expect_error(
      [&] {
        save_safetensors(path, {{"a", at::eye(2).to_sparse()}});
      },
      "[safetensors] save: tensor 'a' is undefined, sparse or quantized; expected a dense "
      "one");
  expect_error(
      [&] {
        save_safetensors(path, {{"a", at::zeros({}, at::kComplexDouble)}});
      },
      ErrorCode::kUnimplemented,
      "[safetensors] tensor 'a': got dtype ComplexDouble, which the format does not have; "
      "convert it (view_as_real, int_repr)");
  EXPECT_TRUE(local_file_system().list(folder.path()).empty());
}

TEST(SafetensorsTest, DamagedFilesAreNamedWithWhatIsWrong) {
  const TempFolder folder;
  const std::string path = folder.path() + "/file.safetensors";
  const auto wrong = [&](const std::string& header, const std::string& data,
                         const std::string& message, ErrorCode code = ErrorCode::kDataLoss) {
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(header.size());
    std::ofstream(path, std::ios::binary) << bytes << header << data;
    expect_error([&] { (void)load_safetensors(path); }, code,
                 "[safetensors] " + path + ": " + message);
  };
  std::ofstream(path) << "short";
  expect_error([&] { (void)load_safetensors(path); }, ErrorCode::kDataLoss,
               "[safetensors] " + path + ": got 5 bytes; a safetensors file has at least 8");
  std::ofstream(path) << "this is no such file, but longer";
  expect_error_containing([&] { (void)load_safetensors(path); }, ErrorCode::kDataLoss,
                          "bytes in a file of 32; not a safetensors file, or cut short");
  const std::string a = "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}";
  wrong(" {}", "", "the header does not start with '{'");
  wrong("{" + a + "}", "123", "got 65 bytes; expected 66 (cut short)");
  wrong("{" + a + "}", "12345", "got 67 bytes; expected 66 (something was added)");
  wrong("{" + a, "1234", "its header: [core] JSON: got the end at byte 53; expected ',' or '}'");
  wrong("{\"a\":1}", "", "its header: [core] JSON: got an integer; expected an object");
  wrong("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", "1234",
        "tensor 'a': got 4 bytes; its dtype and shape take 8");
  wrong("{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", "1234",
        "tensor 'a': got size -1");
  wrong("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", "",
        "tensor 'a': got a shape beyond 2^63 bytes");
  wrong("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "1234",
        "tensor 'a': expected data_offsets [begin, end]");
  wrong("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", "12345678",
        "tensor 'a' begins at 4; expected 0, where the one before ends");
  wrong("{\"a\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}}", "1",
        "tensor 'a': got dtype F4, which libtorch does not have", ErrorCode::kUnimplemented);
}

TEST(SafetensorsTest, MissingFilesAreNamed) {
  expect_error_containing([] { (void)load_safetensors("/no/such/file"); }, ErrorCode::kNotFound,
                          "/no/such/file");
}

TEST(SafetensorsTest, DescribesAFile) {
  std::ostringstream out;
  EXPECT_TRUE(describe_safetensors(kGolden + "metadata.safetensors", out));
  EXPECT_NE(out.str().find("2 tensors, 189 bytes\n  format: pt\n  layer/weight"), std::string::npos)
      << out.str();
  std::ostringstream damaged;
  EXPECT_FALSE(describe_safetensors("/no/such/file", damaged));
  EXPECT_NE(damaged.str().find("/no/such/file"), std::string::npos);
}

}  // namespace
}  // namespace strata
