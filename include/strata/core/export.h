#pragma once

/// Marks the symbols that the shared library exports; everything else is hidden (exception types
/// must be marked too).
#define STRATA_API __attribute__((visibility("default")))
