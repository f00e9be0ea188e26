#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/scenario.h"

namespace strata::simulate {

/// A published measurement: what ran, and images/s.
struct PublishedPoint {
  int gpus = 1;
  int servers = 1;  ///< 0: gradients are added between the GPUs of one host
  VariableUpdate variable_update = VariableUpdate::kParameterServer;
  double images_per_second = 0;
  double efficiency = 0;  ///< against as many GPUs of the same system alone
};

/// A system that was measured with one network.
struct PublishedSystem {
  std::string name;
  std::string hardware;
  std::string network;
  int64_t batch = 64;  ///< a GPU
  int gpus_per_host = 1;
  double one_gpu = 0;                  ///< images/s
  std::vector<PublishedPoint> points;  ///< of several GPUs
};

/// The studies, by name:
/// - cscs: InceptionV3 on Piz Daint and two kinds of Amazon's hosts, synthetic data: the 21
///   efficiencies of 2 to 128 GPUs, with the servers and kinds of update of the study's tables.
///   Source: E. Bugliarello's report "distributed-tensorflow-benchmarks" (CSCS, 2017), section
///   Results.
/// - google: what it quotes, DGX-1 and p2.8xlarge, and other networks there. Source: TensorFlow's
///   page of benchmarks, May 2017.
/// - talk: ResNet-50 on 8 V100 with MirroredStrategy, "90 to 95 %". Source: a talk of 2018 about
///   tf.distribute.
/// @throws Error  kInvalidArgument: no such study; lists them.
const std::vector<PublishedSystem>& published_study(std::string_view name);
std::vector<std::string> published_studies();

/// The numbers that are fitted to the 21 efficiencies of "cscs".
struct FittedNumbers {
  double overhead = 0;               ///< of any step of several workers, in steps of one GPU
  double overhead_per_doubling = 0;  ///< of GPUs
  double daint_bytes_per_second = 0;
  double p2_xlarge_bytes_per_second = 0;
};

/// As `fit` finds them, rounded.
FittedNumbers fitted_numbers();
constexpr double kP28xlargeBytesPerSecond = 1.25e9;  ///< 10 Gbit/s, as Amazon says; not fitted

/// The scenario of a point. Systems of one host without servers have no overhead: none was fitted
/// to them.
Scenario scenario_of(const PublishedSystem& system, const PublishedPoint& point,
                     const FittedNumbers& numbers);

struct SimulatedPoint {
  const PublishedSystem* system;
  PublishedPoint published;
  Scenario scenario;
  StepReport simulated;
  double error() const { return simulated.efficiency - published.efficiency; }
};
std::vector<SimulatedPoint> simulate_study(std::string_view name, const FittedNumbers& numbers);

/// The root of the mean square of errors of efficiency.
double rms(const std::vector<SimulatedPoint>& points);

/// Searches for the numbers with the least rms: Nelder and Mead's method from four simplices.
FittedNumbers fit();

}  // namespace strata::simulate
