#pragma once

// <nccl.h> does not say that its functions are visible outside a library, and this one hides what is not.
#pragma GCC visibility push(default)
#include <nccl.h>
#pragma GCC visibility pop
