#include "strata/data/mnist.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <bit>
#include <ios>
#include <span>
#include <vector>

#include "core/checked_size.h"
#include "data/files/byte_reader.h"
#include "strata/core/error.h"

namespace strata::data {
namespace {

class IdxReader {
 public:
  IdxReader(const std::string& path, const ReadLimits& limits)
      : path_(path), limits_(limits), bytes_(detail::open_byte_reader(path)) {}

  at::Tensor read() {
    const std::array<uint8_t, 4> magic = read_magic();
    const at::ScalarType dtype = dtype_of(magic[2]);
    const std::vector<int64_t> sizes = read_sizes(magic[3]);
    const size_t element_size = c10::elementSize(dtype);
    const uint64_t bytes = data_bytes(sizes, element_size);
    check_unpacked(bytes);

    at::Tensor tensor = at::empty(sizes, dtype);
    auto* data = static_cast<uint8_t*>(tensor.mutable_data_ptr());
    const size_t got = bytes_->read(data, bytes);
    STRATA_CHECK(got == bytes, kDataLoss, where(offset_ + got),
                 "got the end of the data; expected ", bytes - got, " more bytes of the ", bytes,
                 " that sizes ", at::IntArrayRef(sizes), " need; the file is truncated");
    offset_ += got;
    uint8_t extra = 0;
    STRATA_CHECK(bytes_->read(&extra, 1) == 0, kDataLoss, where(offset_),
                 "got more data; expected the end behind sizes ", at::IntArrayRef(sizes),
                 "; the file is damaged or not one IDX file");
    if constexpr (std::endian::native == std::endian::little)
      reverse_each(data, bytes, element_size);
    return tensor;
  }

 private:
  std::array<uint8_t, 4> read_magic() {
    std::array<uint8_t, 4> magic{};
    const size_t got = bytes_->read(magic.data(), magic.size());
    STRATA_CHECK(got == magic.size(), kDataLoss, where(got),
                 "got the end of the data; expected a magic number of 4 bytes");
    STRATA_CHECK(magic[0] == 0 && magic[1] == 0, kDataLoss, where(0), "got bytes ", hex(magic[0]),
                 " ", hex(magic[1]), "; expected 0x00 0x00; this is not an IDX file");
    constexpr int kMaxDims = 64;  // libtorch's own limit for most operators
    STRATA_CHECK(magic[3] >= 1 && magic[3] <= kMaxDims, kDataLoss, where(3), "got ", int{magic[3]},
                 " dimensions; expected 1 to ", kMaxDims);
    offset_ = magic.size();
    return magic;
  }

  at::ScalarType dtype_of(uint8_t code) const {
    switch (code) {
      case 0x08:
        return at::kByte;
      case 0x09:
        return at::kChar;
      case 0x0B:
        return at::kShort;
      case 0x0C:
        return at::kInt;
      case 0x0D:
        return at::kFloat;
      case 0x0E:
        return at::kDouble;
      default:
        throw Error(ErrorCode::kDataLoss,
                    str_cat(where(2), "got type code ", hex(code),
                            "; expected 0x08, 0x09, 0x0B, 0x0C, 0x0D or 0x0E"));
    }
  }

  std::vector<int64_t> read_sizes(int dims) {
    std::vector<int64_t> sizes;
    for (int d = 0; d < dims; ++d) {
      std::array<uint8_t, 4> size{};
      const size_t got = bytes_->read(size.data(), size.size());
      STRATA_CHECK(got == size.size(), kDataLoss, where(offset_ + got),
                   "got the end of the data; expected the size of dimension ", d, " of ", dims);
      offset_ += size.size();
      sizes.push_back(int64_t{size[0]} << 24 | size[1] << 16 | size[2] << 8 | size[3]);
    }
    return sizes;
  }

  // Of all values; checked against what the file can hold, before anything is allocated. Sizes that
  // overflow are refused beside a zero, too: libtorch cannot make strides of them.
  uint64_t data_bytes(const std::vector<int64_t>& sizes, size_t element_size) const {
    std::vector<int64_t> factors = sizes;
    factors.push_back(static_cast<int64_t>(element_size));
    const auto bytes = strata::detail::checked_product(std::span<const int64_t>(factors));
    STRATA_CHECK(bytes && static_cast<uint64_t>(*bytes) <= bytes_->size_bound(), kDataLoss,
                 where(4), "got sizes ", at::IntArrayRef(sizes), " of ", element_size,
                 " bytes a value, ", bytes ? std::to_string(*bytes) : "2^63 or more",
                 " bytes; expected no more than the file can hold, ", bytes_->size_bound(),
                 "; the file is truncated or its header damaged");
    return static_cast<uint64_t>(*bytes);
  }

  // What a plain file has is in it already.
  void check_unpacked(uint64_t bytes) const {
    constexpr uint64_t kFree = uint64_t{16} << 20;
    const auto info = file_system_of(path_).info(path_);
    const uint64_t stored = info ? info->size : 0;
    if (bytes <= stored) return;
    STRATA_CHECK(bytes - stored <= limits_.unpacked_bytes, kResourceExhausted, where(4),
                 "got values of ", bytes, " bytes in a gzipped file of ", stored,
                 "; expected at most ", limits_.unpacked_bytes,
                 " more; raise ReadLimits::unpacked_bytes if they are meant");
    STRATA_CHECK(bytes <= kFree || (bytes - 1) / limits_.expansion < stored, kResourceExhausted,
                 where(4), "got values of ", bytes, " bytes in a gzipped file of ", stored,
                 "; expected at most ", limits_.expansion,
                 " times its size; raise ReadLimits::expansion if they are meant");
  }

  static void reverse_each(uint8_t* data, uint64_t bytes, size_t element_size) {
    if (element_size == 1) return;
    for (uint64_t i = 0; i < bytes; i += element_size)
      std::reverse(data + i, data + i + element_size);
  }

  std::string where(uint64_t offset) const {
    return str_cat("[data] read_idx_file: ", path_, ", offset ", offset, ": ");
  }

  static std::string hex(uint8_t byte) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    return {'0', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }

  std::string path_;
  ReadLimits limits_;
  std::unique_ptr<detail::ByteReader> bytes_;
  uint64_t offset_ = 0;  // uncompressed
};

}  // namespace

at::Tensor read_idx_file(const std::string& path, const ReadLimits& limits) {
  STRATA_CHECK(limits.expansion >= 1, kInvalidArgument,
               "[data] read_idx_file: got ReadLimits::expansion 0; expected at least 1");
  return IdxReader(path, limits).read();
}

}  // namespace strata::data
