#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gpu/fake_nccl/fake_nccl.h"

/// Ranks in threads, and values of NCCL's types, for tests of the fake NCCL itself.
namespace strata::test::fake_nccl {

inline constexpr int kPatienceMs = 60'000;

/// A stream of this thread's own.
inline cudaStream_t stream_of(const void* owner) {
  return reinterpret_cast<cudaStream_t>(const_cast<void*>(owner));
}

inline void expect_done(cudaStream_t stream) {
  EXPECT_EQ(fake_nccl_stream_synchronize(stream, kPatienceMs), 0);
}

/// Calls `condition` until it is true; false after a minute.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

inline ncclResult_t async_error(ncclComm_t comm) {
  ncclResult_t error = ncclInternalError;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &error), ncclSuccess);
  return error;
}

/// Waits for an error, and returns it.
inline ncclResult_t await_error(ncclComm_t comm) {
  EXPECT_TRUE(eventually([&] { return async_error(comm) != ncclSuccess; }));
  return async_error(comm);
}

/// Runs `body` for each rank, in a thread.
inline void in_threads(int ranks, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& each : threads) each.join();
}

struct Rank {
  int rank;
  int ranks;
  ncclComm_t comm;
  cudaStream_t stream;
};

/// The same with a communicator, which is destroyed afterwards unless `body` has set it to null.
inline void with_communicator(int ranks, const std::function<void(Rank&)>& body) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  in_threads(ranks, [&](int rank) {
    Rank self{rank, ranks, nullptr, nullptr};
    self.stream = stream_of(&self);
    ASSERT_EQ(ncclCommInitRank(&self.comm, ranks, id, rank), ncclSuccess)
        << ncclGetLastError(nullptr);
    body(self);
    EXPECT_EQ(ncclCommDestroy(self.comm), ncclSuccess);  // null is none
  });
}

inline constexpr ncclDataType_t kTypes[] = {ncclInt8,    ncclUint8,   ncclInt32,   ncclUint32,
                                            ncclInt64,   ncclUint64,  ncclFloat16, ncclFloat32,
                                            ncclFloat64, ncclBfloat16};

inline bool is_integer(ncclDataType_t type) { return type <= ncclUint64; }

inline size_t bytes_each(ncclDataType_t type) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kSizes[type];
}

/// The bits of a float of 16 bits that holds `value` exactly.
inline uint16_t short_bits(double value, int fraction_bits, int bias) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent) * 2 - 1;  // of 1.fraction
  const auto stored = static_cast<uint16_t>(std::ldexp(fraction, fraction_bits));
  const auto sign = static_cast<uint16_t>(value < 0 ? 0x8000 : 0);
  return static_cast<uint16_t>(sign | ((exponent - 1 + bias) << fraction_bits) | stored);
}

inline double short_value(uint16_t bits, int fraction_bits, int bias) {
  if ((bits & 0x7fff) == 0) return 0;
  const int exponent = ((bits & 0x7fff) >> fraction_bits) - bias;
  const double fraction = std::ldexp(bits & ((1 << fraction_bits) - 1), -fraction_bits);
  return ((bits & 0x8000) != 0 ? -1 : 1) * std::ldexp(1 + fraction, exponent);
}

/// Numbers in memory of one of NCCL's types.
class Values {
 public:
  Values(ncclDataType_t type, size_t count) : type_(type), bytes_(count * bytes_each(type) + 1) {}

  void* data() { return bytes_.data(); }
  void* at(size_t index) { return bytes_.data() + index * bytes_each(type_); }
  size_t count() const { return bytes_.size() / bytes_each(type_); }

  void set(size_t index, double value) {
    switch (type_) {
      case ncclInt8:
      case ncclUint8:
        return put(index, static_cast<int8_t>(value));
      case ncclInt32:
      case ncclUint32:
        return put(index, static_cast<int32_t>(value));
      case ncclInt64:
      case ncclUint64:
        return put(index, static_cast<int64_t>(value));
      case ncclFloat16:
        return put(index, short_bits(value, 10, 15));
      case ncclBfloat16:
        return put(index, short_bits(value, 7, 127));
      case ncclFloat32:
        return put(index, static_cast<float>(value));
      default:
        return put(index, value);
    }
  }

  double get(size_t index) const {
    switch (type_) {
      case ncclInt8:
      case ncclUint8:
        return get_as<int8_t>(index);
      case ncclInt32:
      case ncclUint32:
        return get_as<int32_t>(index);
      case ncclInt64:
      case ncclUint64:
        return static_cast<double>(get_as<int64_t>(index));
      case ncclFloat16:
        return short_value(get_as<uint16_t>(index), 10, 15);
      case ncclBfloat16:
        return short_value(get_as<uint16_t>(index), 7, 127);
      case ncclFloat32:
        return get_as<float>(index);
      default:
        return get_as<double>(index);
    }
  }

 private:
  template <typename T>
  void put(size_t index, T value) {
    std::memcpy(bytes_.data() + index * sizeof(T), &value, sizeof(T));
  }
  template <typename T>
  T get_as(size_t index) const {
    T value;
    std::memcpy(&value, bytes_.data() + index * sizeof(T), sizeof(T));
    return value;
  }

  ncclDataType_t type_;
  std::vector<char> bytes_;
};

}  // namespace strata::test::fake_nccl
