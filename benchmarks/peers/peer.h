#pragma once

#include <torch/types.h>
#include <torch/version.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>

// What the libtorch peers share: the data file and the line protocol (README.md).
namespace peer {

struct Pool {
  torch::Tensor x;  // [batches, batch, features]
  torch::Tensor y;  // [batches, batch] int64
};

/// Reads the harness's data file: int64 batches, batch, features, classes; then x and y.
/// @param batch  What it must be; 0: any.
inline Pool read_pool(const std::string& path, int64_t batch) {
  std::ifstream in(path, std::ios::binary);
  int64_t head[4] = {};
  in.read(reinterpret_cast<char*>(head), sizeof(head));
  if (!in || (batch != 0 && head[1] != batch)) {
    throw std::runtime_error("cannot read data file " + path);
  }
  Pool pool{torch::empty({head[0], head[1], head[2]}),
            torch::empty({head[0], head[1]}, torch::kLong)};
  in.read(static_cast<char*>(pool.x.data_ptr()), static_cast<std::streamsize>(pool.x.nbytes()));
  in.read(static_cast<char*>(pool.y.data_ptr()), static_cast<std::streamsize>(pool.y.nbytes()));
  if (!in) throw std::runtime_error("data file is cut short: " + path);
  return pool;
}

/// Answers `run K` until the input ends. `steps(k)` returns the last loss.
template <typename Steps>
void serve(const Steps& steps) {
  steps(3);
  std::cout << "ready torch " << TORCH_VERSION << std::endl;
  std::string line;
  while (std::getline(std::cin, line)) {
    long long count = 0;
    if (std::sscanf(line.c_str(), "run %lld", &count) != 1 || count < 1) break;
    const auto start = std::chrono::steady_clock::now();
    const float loss = steps(count);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    std::printf("ok %.9f %.6f\n", elapsed.count(), static_cast<double>(loss));
    std::fflush(stdout);
  }
}

}  // namespace peer
