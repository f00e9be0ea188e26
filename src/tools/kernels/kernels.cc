// `strata kernels`: what runs in replica functions on this processor, by the table in the source.
// It needs no libtorch; measuring does, and strata-bench does it.
#include <array>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include "core/cpu_model.h"
#include "kernels/kernel_choice.h"
#include "strata/core/error.h"
#include "strata/core/str_cat.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/exit_status.h"
#include "tools/find_companion.h"

namespace strata::tools {
namespace {

using kernels::KernelChoice;
using kernels::KernelClassInfo;

CommandHelp kernels_help() {
  return {
      .usage = "strata kernels [--measure [--write FILE]]",
      .description =
          R"(Prints the processor, the table's row for it, and by class of shapes whose kernel runs in replica functions:
strata's or libtorch's, and how fast strata's was where the row was measured, libtorch's being 1.
STRATA_KERNELS in the environment overrides the choices: libtorch, strata, measured, or parts such as
matmul=libtorch,convolution.strided=strata; row=NAME takes another row. docs/kernels.md explains them.)"};
}

std::string processor(CpuIsa isa) {
  constexpr std::array kIsas = {"baseline", "AVX2", "AVX-512"};
  const CpuModel& model = cpu_model();
  if (model.family < 0) return str_cat("unknown, ", kIsas[static_cast<size_t>(isa)]);
  return str_cat(model.name, " (family ", model.family, ", model ", model.model, "), ",
                 kIsas[static_cast<size_t>(isa)]);
}

void print_rate(double rate) {
  if (rate == 0) {
    std::cout << "not measured";
  } else {
    std::cout << std::fixed << std::setprecision(2) << rate;
  }
}

void print_choice() {
  const CpuIsa isa = best_cpu_isa();
  const KernelChoice& choice = kernels::kernel_choice();
  const bool exact = is_exact(*choice.row, isa, cpu_model().family, cpu_model().model);
  std::cout << "processor  " << processor(isa) << "\nrow        " << choice.row->name
            << (exact ? "" : " (the nearest)") << ", measured on: " << choice.row->measured_on
            << "\nkernels    " << choice.name() << "\n\n"
            << std::left << std::setw(28) << "class" << std::setw(10) << "runs" << std::setw(15)
            << "strata's speed"
            << "shapes\n";
  for (const KernelClassInfo& info : kernels::kKernelClasses) {
    std::cout << std::left << std::setw(28) << info.name << std::setw(10)
              << (choice[info.id] ? "strata" : "libtorch") << std::setw(15);
    print_rate(choice.row->rates[info.id]);
    std::cout << info.shapes << '\n';
  }
}

}  // namespace

int kernels_main(int argc, char** argv) {
  bool measure = false;
  std::string file;
  CommandLine line("strata kernels", kernels_help());
  line.flag("--measure",
            "measures strata's kernels beside libtorch's on this processor, a minute\n"
            "on one core, and prints the row of the table (needs strata-bench)",
            measure);
  line.text("--write", "FILE",
            "also writes the row to FILE, as src/kernels/kernel_table.inc has it", file);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!line.read(words)) {
    std::cout << line.help();
    return 0;
  }
  STRATA_CHECK(line.operands().empty(), kInvalidArgument, "[strata kernels] got '",
               line.operands().empty() ? "" : line.operands()[0], "'; expected options alone");
  STRATA_CHECK(measure || file.empty(), kInvalidArgument,
               "[strata kernels] got --write without --measure; expected both");
  if (measure) {
    std::vector<std::string> command = {"strata-bench", "measure-kernels"};
    if (!file.empty()) command.push_back(file);
    run_bench_program(command);
  }
  if constexpr (STRATA_CPU_KERNELS == 0) {
    std::cout << "libtorch's kernels run: this strata was built with STRATA_CPU_KERNELS=OFF\n";
  } else {
    print_choice();
  }
  return 0;
}

}  // namespace strata::tools
