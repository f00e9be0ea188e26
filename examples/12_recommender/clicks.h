#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <random>

// Clicks of users on items, made here. A few users and items have most of them.

constexpr int64_t kUsers = 9'000'000;
constexpr int64_t kItems = 1'000'000;

/// A number of about Zipf's law: the n-th has a part of about 1/n.
inline int64_t zipf(std::mt19937_64& random, int64_t count) {
  const double u = std::uniform_real_distribution<double>()(random);
  return static_cast<int64_t>(std::pow(static_cast<double>(count), u)) - 1;
}

/// What a user or an item is like, which the program does not know.
inline double taste(int64_t row) {
  std::mt19937_64 random(static_cast<uint64_t>(row) * 0x9E3779B97F4A7C15 + 1);
  return std::normal_distribution<double>(0, 1)(random);
}

struct Clicks {
  at::Tensor ids;      // [n, 2]: a user's row and an item's
  at::Tensor clicked;  // [n]
  at::Tensor odds;     // [n]: the law that they follow
};

inline Clicks make_clicks(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Clicks clicks{at::empty({count, 2}, at::kLong), at::empty({count}), at::empty({count})};
  auto ids = clicks.ids.accessor<int64_t, 2>();
  for (int64_t i = 0; i < count; ++i) {
    ids[i][0] = zipf(random, kUsers);
    ids[i][1] = kUsers + zipf(random, kItems);
    const double odds = taste(ids[i][0]) + taste(ids[i][1]);
    clicks.odds[i] = odds;
    clicks.clicked[i] = std::bernoulli_distribution(1 / (1 + std::exp(-odds)))(random) ? 1.0 : 0.0;
  }
  return clicks;
}

/// How often a click has a higher score than none.
inline double auc(const at::Tensor& scores, const at::Tensor& clicked) {
  const at::Tensor ranks = scores.argsort().argsort().to(at::kDouble) + 1;
  const double clicks = clicked.sum().item<double>();
  const double others = static_cast<double>(clicked.numel()) - clicks;
  const double sum = ranks.mul(clicked).sum().item<double>();
  return (sum - clicks * (clicks + 1) / 2) / (clicks * others);
}
