#pragma once

/// Marks what the shared library shows; everything else is hidden (exception types must be marked
/// too).
#define STRATA_API __attribute__((visibility("default")))
