#include "graph/places.h"

#include <ATen/SequenceNumber.h>
#include <link.h>
#include <torch/csrc/autograd/node.h>
#include <torch/csrc/profiler/unwind/unwind.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "core/mutex.h"
#include "graph/symbols.h"
#include "strata/core/str_cat.h"

namespace strata::graph {
namespace {

thread_local const std::string* this_threads_layer = nullptr;
thread_local std::optional<uint64_t> this_threads_gradient;

/// Of autograd's node whose formula this thread computes.
std::optional<uint64_t> gradient_here() {
  if (this_threads_gradient) return this_threads_gradient;
  const auto node = torch::autograd::get_current_node();
  return node ? std::optional(node->sequence_nr()) : std::nullopt;
}

/// A file of the process's code, and where it lies.
struct Module {
  std::string path;
  uintptr_t base = 0;  // what an address in the file is added to
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

Module module_of(const dl_phdr_info& info) {
  Module module{.path = info.dlpi_name, .base = info.dlpi_addr, .begin = UINTPTR_MAX};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& part = info.dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    module.begin = std::min<uintptr_t>(module.begin, info.dlpi_addr + part.p_vaddr);
    module.end = std::max<uintptr_t>(module.end, info.dlpi_addr + part.p_vaddr + part.p_memsz);
  }
  return module;
}

std::vector<Module> modules() {
  std::vector<Module> found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* list) {
        static_cast<std::vector<Module>*>(list)->push_back(module_of(*info));
        return 0;
      },
      &found);
  std::error_code ignored;
  for (Module& each : found) {
    if (!each.path.empty()) continue;
    each.path =
        std::filesystem::read_symlink("/proc/self/exe", ignored);  // the program, the first one
  }
  return found;
}

bool is_library(const Module& module) {
  static constexpr std::string_view kNames[] = {
      "libtorch", "libc10",  "libstrata", "libstdc++",   "libc.so",       "libm.so",
      "libgomp",  "libgcc_", "ld-linux",  "libpthread.", "linux-vdso.so", "libshm."};
  const std::string_view name =
      std::string_view(module.path).substr(module.path.find_last_of('/') + 1);
  return std::ranges::any_of(kNames, [&](auto each) { return name.starts_with(each); });
}

/// Where the libraries lie, as pairs of begin and end. They stay loaded.
const std::vector<std::pair<uintptr_t, uintptr_t>>& library_code() {
  static const auto* const code = [] {
    auto* found = new std::vector<std::pair<uintptr_t, uintptr_t>>();
    for (const Module& each : modules()) {
      if (is_library(each)) found->emplace_back(each.begin, each.end);
    }
    return found;
  }();
  return *code;
}

/// libtorch's, by one thread at a time: a place in its cache that a thread reads may move when
/// another one's first call at a place makes the cache grow.
struct Unwinder {
  Mutex mutex;
  bool works STRATA_GUARDED_BY(mutex) = true;  // libtorch has none for some processors
};

std::vector<void*> frames_here() {
  static Unwinder unwinder;
  std::vector<void*> frames;
  {
    const MutexLock lock(unwinder.mutex);
    if (!unwinder.works) return {};
    try {
      frames = torch::unwind::unwind();
    } catch (const std::exception&) {
      unwinder.works = false;
      return {};
    }
  }
  const auto& code = library_code();
  std::erase_if(frames, [&](const void* frame) {
    const auto address = reinterpret_cast<uintptr_t>(frame);
    return std::ranges::any_of(
        code, [&](const auto& each) { return each.first <= address && address < each.second; });
  });
  return frames;
}

/// As addr2line takes it.
std::string address_text(const std::vector<Module>& all, const std::vector<const void*>& places) {
  std::string text;
  for (const void* place : places) {
    const auto address = reinterpret_cast<uintptr_t>(place);
    const auto module = std::ranges::find_if(
        all, [&](const Module& each) { return each.begin <= address && address < each.end; });
    if (module == all.end()) continue;
    std::string number;
    for (uintptr_t rest = address - module->base; rest > 0 || number.empty(); rest /= 16) {
      number.insert(number.begin(), "0123456789abcdef"[rest % 16]);
    }
    text += text.empty() ? str_cat("addr2line -e ", module->path, " 0x", number)
                         : str_cat(" 0x", number);
  }
  return text;
}

/// "net.cc:12 (Net::forward)", of the innermost frame that is the program's.
std::string describe_frames(const std::vector<void*>& frames, bool& has_line) {
  constexpr size_t kMostAddresses = 8;
  std::vector<const void*> nameless;
  const std::vector<Module> all = modules();
  for (const void* frame : frames) {
    const void* const address = static_cast<const char*>(frame) - 1;  // in the call
    const Symbol symbol = symbol_of(address);
    const bool in_library = !symbol.function.empty() && is_library_function(symbol.function);
    for (const SourceLine& line : symbol.lines) {
      if (is_library_file(line.file) || is_library_function(line.function)) continue;
      if (in_library && is_own_source(line.file)) continue;
      std::string_view name = qualified_name(line.function);
      const std::string_view around = qualified_name(symbol.function);
      if (name == "operator()" && !is_library_name(around)) name = around;
      has_line = true;
      return str_cat(line.file, ":", line.line, " (", name, ")");
    }
    if (!symbol.lines.empty()) continue;
    if (symbol.function.empty()) {
      if (nameless.size() < kMostAddresses) nameless.push_back(address);
    } else if (!is_library_function(symbol.function)) {
      has_line = false;
      return str_cat(qualified_name(symbol.function), " (", address_text(all, {address}), ")");
    }
  }
  has_line = false;
  if (nameless.empty()) return {};
  return str_cat("code without symbols (", address_text(all, nameless), ")");
}

}  // namespace

std::string describe(const Place& place) {
  const Place& called = place.forward ? *place.forward : place;
  bool has_line = false;
  std::string text = describe_frames(called.frames, has_line);
  if (!text.empty()) {
    text = str_cat(place.forward ? "in the backward pass of "
                   : has_line    ? "called at "
                                 : "called in ",
                   text);
  }
  if (called.layer.empty()) return text;
  if (text.empty() && place.forward) return str_cat("in the backward pass of layer ", called.layer);
  return str_cat(text, text.empty() ? "" : "; ", "layer ", called.layer);
}

std::string describe_place(const Node& node) {
  if (!node.place) return {};
  const std::string text = describe(*node.place);
  return text.empty() ? text : "; " + text;
}

std::string describe_here() {
  return describe({.frames = frames_here(),
                   .layer = this_threads_layer == nullptr ? std::string() : *this_threads_layer});
}

Places::Places() : begin_(at::sequence_number::peek()) {}

std::shared_ptr<const Place> Places::here() {
  std::shared_ptr<const Place> place;
  if (const auto gradient = gradient_here()) {
    const auto forward = forward_of(*gradient);
    if (forward) place = backward_of(forward);
  }
  if (!place) {
    std::pair key{frames_here(),
                  this_threads_layer == nullptr ? std::string() : *this_threads_layer};
    auto [known, is_new] = known_.try_emplace(std::move(key));
    if (is_new) {
      known->second = std::make_shared<Place>(
          Place{.frames = known->first.first, .layer = known->first.second});
    }
    place = known->second;
  }
  const uint64_t next = at::sequence_number::peek();
  const uint64_t last = numbered_.empty() ? begin_ : numbered_.back().first;
  if (next > last) numbered_.emplace_back(next, place);
  return place;
}

/// autograd makes an operator's node just before the operator comes here, so its number is the one before the
/// next. Other nodes, such as that of a write to a view, are made behind their operator.
std::shared_ptr<const Place> Places::forward_of(uint64_t sequence_number) const {
  if (sequence_number < begin_ || sequence_number == UINT64_MAX || numbered_.empty()) return {};
  auto found = std::ranges::upper_bound(numbered_, sequence_number, {},
                                        [](const auto& each) { return each.first; });
  const bool is_own = found != numbered_.end() && found->first == sequence_number + 1;
  if (!is_own && found != numbered_.begin()) --found;
  return found->second;
}

std::shared_ptr<const Place> Places::backward_of(const std::shared_ptr<const Place>& forward) {
  if (forward->forward) return forward;  // the gradient of a gradient
  std::shared_ptr<const Place>& place = backward_[forward.get()];
  if (!place) place = std::make_shared<Place>(Place{.frames = {}, .forward = forward});
  return place;
}

BackwardGuard::BackwardGuard(uint64_t sequence_number) : before_(this_threads_gradient) {
  this_threads_gradient = sequence_number;
}
BackwardGuard::~BackwardGuard() { this_threads_gradient = before_; }

LayerNameGuard::LayerNameGuard(const std::string& name) : before_(this_threads_layer) {
  this_threads_layer = &name;
}
LayerNameGuard::~LayerNameGuard() { this_threads_layer = before_; }

}  // namespace strata::graph
