#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace strata::tensor {

/// One tensor in an arena. `strides` empty: contiguous. Otherwise they must fill the tensor's range
/// without gaps or overlap (a channels-last weight).
struct ArenaEntry {
  std::vector<int64_t> sizes = {};
  std::vector<int64_t> strides = {};
};

/// Many tensors of one dtype back to back in one buffer: parameters, gradients or slots, which are
/// then reduced and updated as ranges of one flat tensor. The buffer starts at a multiple of 2 MiB,
/// lies in huge pages where the kernel gives them, and is zero at first, padding included. Each
/// tensor starts at a multiple of 64 bytes.
///
/// A handle: copies share the buffer, which lives as long as any handle or tensor of it.
/// Threads: const calls from any thread; what the tensors hold is the callers' business.
class Arena {
 public:
  Arena() = default;

  /// @param dtype   Any with a fixed size: float32, float64, float16, bfloat16, int64, ...
  /// @param device  On "cpu" the buffer is mapped here; elsewhere it is at::zeros.
  /// @param multiple  Each tensor, with the padding behind it, takes a multiple of so many elements, too:
  ///   any run of tensors can be cut into so many equal parts.
  /// @throws Error  kInvalidArgument: negative sizes, or strides with gaps or overlap.
  ///   kResourceExhausted: the kernel has no memory left. c10::Error from the device's allocator.
  Arena(std::vector<ArenaEntry> entries, c10::ScalarType dtype,
        c10::Device device = c10::DeviceType::CPU, int64_t multiple = 1);

  /// In memory of another owner.
  /// @param allocate  Gives `[elements]` of `dtype`, contiguous on the CPU.
  Arena(std::vector<ArenaEntry> entries, c10::ScalarType dtype,
        const std::function<at::Tensor(int64_t elements)>& allocate);

  /// A new arena, zeroed, of the same entries (a slot for each parameter, say).
  Arena make_like(c10::ScalarType dtype, c10::Device device) const;
  Arena make_like() const { return make_like(dtype(), device()); }
  Arena make_like(const std::function<at::Tensor(int64_t elements)>& allocate) const;

  int64_t num_tensors() const { return static_cast<int64_t>(entries_.size()); }
  c10::ScalarType dtype() const { return flat_.scalar_type(); }
  c10::Device device() const { return flat_.device(); }

  /// Where tensor `i` starts and how many elements it has, counted in elements of the flat tensor.
  int64_t offset(int64_t i) const;
  int64_t size(int64_t i) const;
  /// Elements of the flat tensor, padding included.
  int64_t numel() const { return flat_.numel(); }

  /// Tensor `i`: a new alias at each call, with a version counter and autograd metadata of its own,
  /// so that each replica can hold one; bump_version() of one does not reach the others.
  at::Tensor view(int64_t i) const;

  /// Everything, `[numel()]`; a new alias at each call.
  at::Tensor flat() const;
  /// Tensors `first` to `last` (excluded) with the padding behind each, one-dimensional; a new
  /// alias.
  at::Tensor flat(int64_t first, int64_t last) const;

 private:
  /// The place of each tensor. @return elements of them all.
  int64_t lay_out(c10::ScalarType dtype);
  at::Tensor alias(int64_t offset, at::IntArrayRef sizes, at::IntArrayRef strides) const;
  void check_index(int64_t i, const char* call) const;

  std::vector<ArenaEntry> entries_;
  int64_t multiple_ = 1;             // elements, of what each tensor takes
  std::vector<int64_t> offsets_{0};  // one more than entries: the last is numel()
  std::vector<int64_t> sizes_;
  at::Tensor flat_;
};

}  // namespace strata::tensor
