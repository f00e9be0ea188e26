#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "strata/core/export.h"

/// Hashes that TensorFlow makes ids of texts with: they are the same on all machines.
namespace strata::data {

/// FarmHash's Fingerprint64. Source: tf.strings.to_hash_bucket_fast.
/// @throws Error kUnimplemented: strata was built without FarmHash.
STRATA_API uint64_t fingerprint64(std::string_view bytes);

/// TensorFlow's FingerprintCat64 with MurmurHash's mixing: the fingerprint of two in this order.
/// Source: tf.sparse.cross_hashed.
STRATA_API uint64_t fingerprint_cat(uint64_t a, uint64_t b);

/// SipHash-2-4 of Aumasson and Bernstein, which depends on a key of 128 bits. Source:
/// tf.strings.to_hash_bucket_strong.
STRATA_API uint64_t sip_hash(const std::array<uint64_t, 2>& key, std::string_view bytes);

}  // namespace strata::data
