// An asynchronous loop of the kind that reinforcement learning has: workers play with the policy
// that they are handed, each at its own pace; the coordinator learns from each game as it comes in.
//
//   build/release/strata launch -n 3 --chief -- build/release/examples/13_coordinator
//
// prints, on the chief (which game comes in when differs from run to run):
//   after 50 games: the pole stays up for 134.1 steps
//   after 100 games: the pole stays up for 185.6 steps
//   solved: 195 steps and more
//
// A worker that is lost plays no more until it is back, and the others play its games.
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <cstdio>
#include <deque>
#include <random>
#include <tuple>

#include "strata/strata.h"

using namespace strata;

// A cart with a pole on it (Barto, Sutton and Anderson 1983; Gym's CartPole-v0). Each worker has
// one.
struct CartPole {
  std::mt19937 random;

  /// For how many steps of 200 the pole stays up, if the cart is pushed to where `weights` say.
  double play(const at::Tensor& weights) {
    std::uniform_real_distribution<float> start(-0.05F, 0.05F);
    float x = start(random), speed = start(random), angle = start(random), turn = start(random);
    const float* w = weights.const_data_ptr<float>();
    for (int step = 0; step < 200; ++step) {
      if (std::abs(x) > 2.4F || std::abs(angle) > 0.2095F) return step;
      const float force = w[0] * x + w[1] * speed + w[2] * angle + w[3] * turn > 0 ? 10.0F : -10.0F;
      const float push = (force + 0.05F * turn * turn * std::sin(angle)) / 1.1F;
      const float pole = (9.8F * std::sin(angle) - std::cos(angle) * push) /
                         (0.5F * (4.0F / 3 - 0.1F * std::cos(angle) * std::cos(angle) / 1.1F));
      x += 0.02F * speed;
      speed += 0.02F * (push - 0.05F * pole * std::cos(angle) / 1.1F);
      angle += 0.02F * turn;
      turn += 0.02F * pole;
    }
    return 200;
  }
};

// A direction to go, how far it leads, and how well the weights do.
using Game = std::tuple<at::Tensor, double, double>;
using Play = ps::RemoteFunction<Game(CartPole&, const at::Tensor&, double)>;

// All tasks call it: what the coordinator may schedule has a name, not code that travels.
Play register_all(ps::FunctionRegistry& registry) {
  registry.add_resource("cart", [](const ps::CallContext& context) {
    return CartPole{std::mt19937(static_cast<uint32_t>(context.worker().index))};
  });
  // Plays with weights a little to both sides (Mania, Guy and Recht 2018).
  return registry.add("play", [](CartPole& cart, const at::Tensor& weights, double distance) {
    const at::Tensor direction = at::randn({4});
    const double ahead = cart.play(weights + distance * direction);
    const double back = cart.play(weights - distance * direction);
    return Game(direction, (ahead - back) / 200, cart.play(weights));
  });
}

void coordinate(const ps::FunctionRegistry& registry, const Play& play) {
  ClusterCoordinator coordinator(registry);
  const ps::PerWorkerValues carts = coordinator.create_per_worker_values("cart");
  at::Tensor weights = at::zeros({4});
  std::deque<ps::RemoteValue<Game>> games;
  double steps = 0;
  for (int game = 1; game <= 10'000 && steps < 195; ++game) {
    // Two for each worker: while one game's result is learnt from, the next is played.
    while (games.size() < 2 * static_cast<size_t>(coordinator.num_workers())) {
      games.push_back(coordinator.schedule(play, carts, weights, 0.5));
    }
    const auto [direction, lead, played] = games.front().fetch();
    games.pop_front();
    // With weights that have moved on since: not in place, for they may still be on their way.
    weights = weights + 0.5 * lead * direction;
    steps += 0.03 * (played - steps);
    if (game % 50 == 0) {
      std::printf("after %d games: the pole stays up for %.1f steps\n", game, steps);
    }
  }
  coordinator.join();
  std::printf(steps >= 195 ? "solved: 195 steps and more\n" : "not solved\n");
  coordinator.shutdown();
}

int main() {
  ps::FunctionRegistry registry;
  const Play play = register_all(registry);
  return run_main(registry, [&] { coordinate(registry, play); });
}
