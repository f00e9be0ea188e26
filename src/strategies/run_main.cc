#include "strata/strategies/run_main.h"

#include <cstdio>
#include <exception>

#include "strata/core/error.h"
#include "strata/core/interrupt.h"
#include "strata/strategies/cluster_coordinator.h"
#include "strata/strategies/parameter_server_strategy.h"

namespace strata {
namespace {

constexpr int kFailed = 1;
constexpr int kInterrupted = 130;  // 128 + SIGINT, as shells report it

int exit_code_of(const std::function<void()>& program) noexcept {
  try {
    program();
    return 0;
  } catch (const ExitError& error) {
    return error.exit_code();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.code() == ErrorCode::kCancelled && interrupted() ? kInterrupted : kFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return kFailed;
  } catch (...) {
    std::fprintf(stderr, "[strata] run_main: something that is no std::exception was thrown\n");
    return kFailed;
  }
}

}  // namespace

int run_main(const std::function<void()>& train, const MainOptions& options) noexcept {
  // A parameter server ends at once by Ctrl-C: it has nothing to save.
  bool served = false;
  const int code = exit_code_of([&] {
    served = run_parameter_server({.cluster_resolver = options.cluster_resolver,
                                   .server = options.server,
                                   .limits = options.limits});
  });
  if (served || code != 0) return code;
  const InterruptGuard interrupt;
  return exit_code_of(train);
}

int run_main(const ps::FunctionRegistry& functions, const std::function<void()>& coordinate,
             const MainOptions& options) noexcept {
  const InterruptGuard interrupt;
  return exit_code_of([&] {
    const bool served = serve_worker(
        functions, {.cluster_resolver = options.cluster_resolver, .server = options.server});
    if (!served) coordinate();
  });
}

}  // namespace strata
