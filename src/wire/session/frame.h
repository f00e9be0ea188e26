#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "strata/wire/connection.h"

namespace strata::wire {

static_assert(std::endian::native == std::endian::little, "frames are little endian");

enum class FrameKind : uint8_t {
  kMessage = 1,   ///< a message begins; its first `part` bytes follow
  kRest = 2,      ///< more of it
  kCredit = 3,    ///< a receive of that tag waits: its message may come whole
  kGrant = 4,     ///< the rest of this message may come
  kAbort = 5,     ///< the rest of this message will never come
  kMismatch = 6,  ///< what waited for this message is something else: MismatchBody follows
  kText = 7,      ///< a control message, or the next part of one
  kFreed = 8,     ///< nothing but `freed`
  kGoodbye = 9,   ///< the last frame; the reason follows
};

/// In front of every part of every message.
struct FrameHeader {
  /// The sender does not wait for a kGrant: the receive is known to be there.
  static constexpr uint8_t kWhole = 1;
  /// In place of a message that was cancelled: it ends its receive.
  static constexpr uint8_t kCancelled = 2;

  uint32_t crc = 0;  ///< crc32c of what follows
  FrameKind kind = FrameKind::kFreed;
  uint8_t flags = 0;
  uint16_t none = 0;  ///< always 0
  uint32_t channel = 0;
  uint32_t id = 0;
  uint32_t message = 0;  ///< the sender's number of the message
  uint32_t freed = 0;    ///< this many bytes of eager budget are free again
  uint64_t fingerprint = 0;
  uint64_t total = 0;  ///< bytes of the whole message
  uint32_t part = 0;   ///< bytes that follow this header
  uint32_t none2 = 0;  ///< always 0
};
static_assert(sizeof(FrameHeader) == 48);

/// What a receiver tells about a message that it did not expect.
struct MismatchBody {
  uint64_t sent_fingerprint;
  uint64_t sent_bytes;
  uint64_t expected_fingerprint;
  uint64_t expected_bytes;
};

constexpr size_t kMaxPart = size_t{512} << 10;
constexpr size_t kMaxReason = 4096;
constexpr uint64_t kMaxTotal = uint64_t{1} << 46;
/// What a message that waits for its receive costs beside its bytes.
constexpr size_t kMessageCost = 128;

/// Fills in the checksum.
void seal(FrameHeader& header);

/// What is wrong with a header that came; null if nothing is.
const char* why_damaged(const FrameHeader& header);

}  // namespace strata::wire
