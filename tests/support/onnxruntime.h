#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "strata/checkpoint/safetensors.h"
#include "strata/core/file_system.h"
#include "strata/core/str_cat.h"
#include "support/source_path.h"

// Real onnxruntime, from PyPI, as a judge of what is exported. STRATA_ONNX_PYTHON names a Python that has
// it; else `python3` is asked.
namespace strata::test {

inline std::string python_of_onnx() {
  const char* const named = std::getenv("STRATA_ONNX_PYTHON");  // NOLINT(concurrency-mt-unsafe)
  return named != nullptr ? named : "python3";
}

/// The exit status, and what the command said.
inline std::pair<int, std::string> output_of(const std::string& command) {
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return {-1, "popen failed"};
  std::string text;
  std::array<char, 4096> part{};
  while (const size_t got = std::fread(part.data(), 1, part.size(), pipe)) {
    text.append(part.data(), got);
  }
  return {::pclose(pipe), text};
}

/// Empty: tests can ask it. Else why not.
inline const std::string& why_no_onnxruntime() {
  static const std::string reason =
      output_of(python_of_onnx() + " -c 'import onnx, onnxruntime, numpy'").first == 0
          ? ""
          : "needs a Python with onnx and onnxruntime: pip install onnx onnxruntime, and "
            "STRATA_ONNX_PYTHON if it is not python3";
  return reason;
}

/// Writes what the model must compute beside its file, `stem`.onnx.
inline void write_onnx_case(const std::string& stem, const std::vector<at::Tensor>& inputs,
                            const std::vector<at::Tensor>& outputs) {
  const auto save = [&](const std::string& kind, char letter,
                        const std::vector<at::Tensor>& tensors) {
    NamedTensors named;
    for (size_t i = 0; i < tensors.size(); ++i) {
      named.emplace_back(str_cat(letter, i), tensors[i].detach().contiguous());
    }
    save_safetensors(stem + kind, named);
  };
  save(".inputs.safetensors", 'x', inputs);
  save(".outputs.safetensors", 'y', outputs);
}

/// Every model in `folder` is accepted and computes what it must.
inline void expect_onnxruntime_agrees(const std::string& folder, const std::string& tolerance) {
  const auto [status, text] =
      output_of(str_cat(python_of_onnx(), " ", source_path("tests/golden/check_onnx.py"), " ",
                        folder, " ", tolerance));
  EXPECT_EQ(status, 0) << text;
}

}  // namespace strata::test
