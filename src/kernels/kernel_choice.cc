#include "kernels/kernel_choice.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "core/cpu_model.h"
#include "core/join.h"
#include "strata/core/error.h"
#include "strata/core/log.h"
#include "strata/core/str_cat.h"

namespace strata::kernels {
namespace {

bool in_family(const KernelClassInfo& info, std::string_view name) {
  return info.name == name || info.family() == name;
}

/// From this rate on strata's kernel runs. Within the noise of a measurement it is preferred: its
/// bits depend on less.
constexpr double kAsFast = 0.97;

/// What the row says, for kernels that run with `isa`.
bool by_row(const KernelRow& row, const KernelClassInfo& info, CpuIsa isa) {
  const double rate = row.rates[info.id];
  return isa >= info.least && (rate == 0 ? info.by_default : rate >= kAsFast);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

std::string families() {
  std::vector<std::string> names;
  for (const KernelClassInfo& info : kKernelClasses) {
    if (names.empty() || names.back() != info.family()) names.emplace_back(info.family());
  }
  return join(names);
}

[[noreturn]] void refuse(std::string_view part, const std::string& expected) {
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[cpu_kernels] STRATA_KERNELS: got '", part, "'; expected ", expected));
}

/// The choice as the parts of STRATA_KERNELS change it.
class Overriding {
 public:
  Overriding(KernelChoice& choice, CpuIsa isa) : choice_(choice), isa_(isa) {}

  void apply(std::string_view part) {
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      if (!set("", part)) {
        refuse(part,
               "measured, libtorch, strata, or parts such as matmul=libtorch,convolution=strata");
      }
      return;
    }
    const std::string_view name = part.substr(0, equals);
    const std::string_view value = part.substr(equals + 1);
    if (name == "row") return take_row(value);
    const bool known = std::ranges::any_of(
        kKernelClasses, [&](const KernelClassInfo& info) { return in_family(info, name); });
    if (!known) {
      refuse(part, str_cat("row or one of ", families(),
                           " before '=', or a class that `strata kernels` lists"));
    }
    if (!set(name, value)) {
      refuse(part, str_cat(name, "=measured, ", name, "=libtorch or ", name, "=strata"));
    }
  }

 private:
  /// @param name  Of a class or family; empty: all.
  bool set(std::string_view name, std::string_view value) {
    if (value != "measured" && value != "libtorch" && value != "strata") return false;
    for (const KernelClassInfo& info : kKernelClasses) {
      if (!name.empty() && !in_family(info, name)) continue;
      bool& own = choice_.own[index_of(info.id)];
      own = value == "measured" ? by_row(*choice_.row, info, isa_)
                                : value == "strata" && isa_ >= info.least;
    }
    return true;
  }

  void take_row(std::string_view name) {
    std::vector<std::string> usable;
    for (const KernelRow& row : kernel_rows()) {
      if (row.isa != isa_) continue;
      usable.emplace_back(row.name);
      if (row.name != name) continue;
      choice_.row = &row;
      set("", "measured");
      return;
    }
    refuse(str_cat("row=", name),
           str_cat("a row for this processor's instruction set: ", join(usable)));
  }

  KernelChoice& choice_;
  CpuIsa isa_;
};

/// The part of STRATA_KERNELS that an old variable stands for.
std::string old_part(std::string_view variable, std::string_view value, std::string_view family,
                     std::string_view libtorch, bool dense) {
  if (value.empty()) return "";
  STRATA_CHECK(value == libtorch || value == "strata" || (dense && value == "dense"),
               kInvalidArgument, "[cpu_kernels] ", variable, ": got '", value, "'; expected ",
               libtorch, dense ? ", strata or dense" : " or strata");
  const std::string part = str_cat(family, "=", value == libtorch ? "libtorch" : "strata");
  STRATA_LOG(kWarning) << "[cpu_kernels] " << variable << "=" << value
                       << " is deprecated; set STRATA_KERNELS=" << part;
  return part;
}

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string KernelChoice::name() const {
  if (std::ranges::none_of(own, [](bool each) { return each; })) return "libtorch";
  std::string text = str_cat(row->name, "/", kKernelArithmetic);
  for (size_t i = 0; i < kNumKernelClasses;) {
    const std::string_view family = kKernelClasses[i].family();
    size_t end = i;
    bool alike = true;
    std::string changed;
    for (; end < kNumKernelClasses && kKernelClasses[end].family() == family; ++end) {
      const KernelClassInfo& info = kKernelClasses[end];
      alike = alike && own[end] == own[i];
      if (own[end] == by_row(*row, info, row->isa)) continue;
      changed += str_cat(" ", info.name, "=", own[end] ? "strata" : "libtorch");
    }
    if (!changed.empty() && alike) changed = str_cat(" ", family, own[i] ? "=strata" : "=libtorch");
    text += changed;
    i = end;
  }
  return text;
}

KernelChoice choose_kernels(CpuIsa isa, int family, int model, const KernelOverrides& overrides) {
  KernelChoice choice{.row = &nearest_row(isa, family, model)};
  Overriding overriding(choice, isa);
  overriding.apply("measured");
  for (const std::string& part :
       {old_part("STRATA_MATMUL", overrides.matmul, "matmul", "mkl", true),
        old_part("STRATA_CONV", overrides.conv, "convolution", "mkldnn", false)}) {
    if (!part.empty()) overriding.apply(part);
  }
  if (overrides.kernels.empty()) return choice;
  for (const std::string_view part : split(overrides.kernels)) overriding.apply(part);
  return choice;
}

const KernelChoice& kernel_choice() {
  static const KernelChoice choice =
      choose_kernels(best_cpu_isa(), cpu_model().family, cpu_model().model,
                     {.kernels = environment("STRATA_KERNELS"),
                      .matmul = environment("STRATA_MATMUL"),
                      .conv = environment("STRATA_CONV")});
  return choice;
}

bool runs_own_of(std::string_view family) {
  return std::ranges::any_of(kKernelClasses, [&](const KernelClassInfo& info) {
    return in_family(info, family) && runs_own(info.id);
  });
}

}  // namespace strata::kernels
