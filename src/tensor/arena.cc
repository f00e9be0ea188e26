#include "tensor/arena.h"

#include <ATen/ops/zeros.h>
#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "core/checked_size.h"
#include "strata/core/error.h"
#include "tensor/huge_pages.h"

namespace strata::tensor {
namespace {

constexpr size_t kTensorAlignment = 64;

struct Mapping {
  void* start;
  size_t bytes;
};

void unmap(void* context) {
  const std::unique_ptr<Mapping> mapping(static_cast<Mapping*>(context));
  munmap(mapping->start, mapping->bytes);
}

c10::Storage map_storage(size_t bytes) {
  const size_t mapped = std::max(bytes, kSmallPage);
  void* start = map_huge(mapped);
  STRATA_CHECK(
      start != nullptr, kResourceExhausted, "[arena] Arena: got no memory for ", bytes,
      " bytes; expected enough for every parameter, gradient and slot; use a smaller model or "
      "fewer replicas");
  return c10::Storage(
      c10::Storage::use_byte_size_t(), bytes,
      c10::DataPtr(start, new Mapping{start, mapped}, &unmap, c10::Device(c10::DeviceType::CPU)),
      /*allocator=*/nullptr, /*resizable=*/false);
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

int64_t count_elements(const ArenaEntry& entry) {
  for (const int64_t size : entry.sizes) {
    STRATA_CHECK(size >= 0, kInvalidArgument, "[arena] Arena: got sizes ",
                 at::IntArrayRef(entry.sizes), "; expected none below zero");
  }
  const auto count = detail::checked_product(std::span<const int64_t>(entry.sizes));
  STRATA_CHECK(count.has_value(), kInvalidArgument, "[arena] Arena: got sizes ",
               at::IntArrayRef(entry.sizes),
               ", whose product is beyond 2^63; use a smaller tensor");
  return *count;
}

/// Sorted by stride, each stride must be the product of the sizes before it.
void check_dense(const ArenaEntry& entry, int64_t count) {
  STRATA_CHECK(entry.strides.size() == entry.sizes.size(), kInvalidArgument, "[arena] Arena: got ",
               entry.strides.size(), " strides for ", entry.sizes.size(),
               " sizes; expected one each, or none for a contiguous tensor");
  if (count == 0) return;
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (size_t i = 0; i < entry.sizes.size(); ++i) {
    if (entry.sizes[i] > 1) axes.emplace_back(entry.strides[i], entry.sizes[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t expected = 1;
  for (const auto& [stride, size] : axes) {
    STRATA_CHECK(stride == expected, kInvalidArgument, "[arena] Arena: got sizes ",
                 at::IntArrayRef(entry.sizes), " with strides ", at::IntArrayRef(entry.strides),
                 "; expected a tensor without gaps or overlap; call contiguous() on it first");
    expected *= size;
  }
}

}  // namespace

int64_t Arena::lay_out(c10::ScalarType dtype) {
  const auto element = static_cast<int64_t>(c10::elementSize(dtype));
  const auto line = std::max<int64_t>(static_cast<int64_t>(kTensorAlignment) / element, 1);
  const int64_t step = std::lcm(line, multiple_);
  int64_t next = 0;
  for (ArenaEntry& entry : entries_) {
    const int64_t count = count_elements(entry);
    if (entry.strides.empty()) {
      entry.strides = contiguous_strides(entry.sizes);
    } else {
      check_dense(entry, count);
    }
    sizes_.push_back(count);
    const auto padded = detail::checked_round_up(count, step);
    const auto end = padded.has_value() ? detail::checked_sum(next, *padded) : std::nullopt;
    STRATA_CHECK(end.has_value() && detail::checked_product<int64_t>({*end, element}).has_value(),
                 kInvalidArgument, "[arena] Arena: got sizes ", at::IntArrayRef(entry.sizes),
                 " of ", c10::toString(dtype), " behind ", next,
                 " elements, together beyond 2^63 bytes; use a smaller model");
    next = *end;
    offsets_.push_back(next);
  }
  return next;
}

Arena::Arena(std::vector<ArenaEntry> entries, c10::ScalarType dtype, c10::Device device,
             int64_t multiple)
    : entries_(std::move(entries)), multiple_(multiple) {
  const int64_t elements = lay_out(dtype);
  if (device.is_cpu()) {
    const size_t bytes = static_cast<size_t>(elements) * c10::elementSize(dtype);
    flat_ = at::detail::make_tensor<c10::TensorImpl>(map_storage(bytes),
                                                     c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                     c10::scalarTypeToTypeMeta(dtype));
    flat_.unsafeGetTensorImpl()->set_sizes_contiguous({elements});
  } else {
    flat_ = at::zeros({elements}, at::TensorOptions().dtype(dtype).device(device));
  }
}

Arena::Arena(std::vector<ArenaEntry> entries, c10::ScalarType dtype,
             const std::function<at::Tensor(int64_t elements)>& allocate)
    : entries_(std::move(entries)) {
  const int64_t elements = lay_out(dtype);
  flat_ = allocate(elements);
  STRATA_CHECK(flat_.is_cpu() && flat_.scalar_type() == dtype && flat_.numel() == elements &&
                   flat_.is_contiguous() && flat_.storage_offset() == 0,
               kInvalidArgument, "[arena] Arena: got ", flat_.toString(), " ", flat_.sizes(),
               "; expected [", elements, "] of ", dtype,
               " on the CPU, contiguous, from its storage's beginning");
}

Arena Arena::make_like(c10::ScalarType dtype, c10::Device device) const {
  return Arena(entries_, dtype, device, multiple_);
}

Arena Arena::make_like(const std::function<at::Tensor(int64_t elements)>& allocate) const {
  return Arena(entries_, dtype(), allocate);
}

void Arena::check_index(int64_t i, const char* call) const {
  STRATA_CHECK(i >= 0 && i < num_tensors(), kOutOfRange, "[arena] ", call, ": got index ", i,
               " of ", num_tensors(), " tensors; expected one of them");
}

int64_t Arena::offset(int64_t i) const {
  check_index(i, "offset");
  return offsets_[static_cast<size_t>(i)];
}

int64_t Arena::size(int64_t i) const {
  check_index(i, "size");
  return sizes_[static_cast<size_t>(i)];
}

/// Not a view in autograd's sense: a tensor of its own over the same storage.
at::Tensor Arena::alias(int64_t offset, at::IntArrayRef sizes, at::IntArrayRef strides) const {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(flat_.storage()),
                                                         flat_.key_set(), flat_.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

at::Tensor Arena::view(int64_t i) const {
  check_index(i, "view");
  const auto& entry = entries_[static_cast<size_t>(i)];
  return alias(offsets_[static_cast<size_t>(i)], entry.sizes, entry.strides);
}

at::Tensor Arena::flat() const { return alias(0, {numel()}, {1}); }

at::Tensor Arena::flat(int64_t first, int64_t last) const {
  STRATA_CHECK(0 <= first && first <= last && last <= num_tensors(), kOutOfRange,
               "[arena] flat: got tensors ", first, " to ", last, " of ", num_tensors(),
               "; expected 0 <= first <= last <= ", num_tensors());
  const int64_t begin = offsets_[static_cast<size_t>(first)];
  return alias(begin, {offsets_[static_cast<size_t>(last)] - begin}, {1});
}

}  // namespace strata::tensor
