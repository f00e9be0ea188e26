#include "core/termination.h"

#include <csignal>

#include "strata/core/error.h"

namespace strata::detail {
namespace {

// A signal handler can reach nothing but static storage.
volatile std::sig_atomic_t g_terminated = 0;
bool g_held = false;
struct sigaction g_previous;

void on_terminate(int) { g_terminated = 1; }

}  // namespace

bool TerminationGuard::possible() { return !g_held; }

TerminationGuard::TerminationGuard() {
  STRATA_DCHECK(!g_held);
  g_held = true;
  struct sigaction action = {};
  action.sa_handler = on_terminate;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, &g_previous);
}

TerminationGuard::~TerminationGuard() {
  sigaction(SIGTERM, &g_previous, nullptr);
  g_held = false;
}

bool TerminationGuard::requested() const { return g_terminated != 0; }

void TerminationGuard::handled() { g_terminated = 0; }

}  // namespace strata::detail
