#include "strata/core/interrupt.h"

#include <csignal>

#include "strata/core/error.h"

namespace strata {
namespace {

// A signal handler can reach nothing but static storage.
volatile std::sig_atomic_t g_interrupted = 0;
struct sigaction g_previous;

void on_interrupt(int) {
  g_interrupted = 1;
  // The second one ends the process, should it be busy where it is not polled.
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  g_interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &g_previous);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &g_previous, nullptr);
  g_interrupted = 0;
}

bool interrupted() { return g_interrupted != 0; }

void throw_if_interrupted() {
  STRATA_CHECK(!interrupted(), kCancelled, "[strata] interrupted by Ctrl-C");
}

}  // namespace strata
