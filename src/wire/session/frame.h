#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "wire/connection.h"

namespace strata::wire {

static_assert(std::endian::native == std::endian::little, "frames are little endian");

enum class FrameKind : uint8_t {
  kMessage = 1,        ///< begins a message; `part` bytes follow, the rest needs kClearToSend
  kData = 2,           ///< further bytes of a message
  kReceivePosted = 3,  ///< a receive of this tag is posted: its message may be sent whole
  kClearToSend = 4,    ///< the rest of this message may be sent
  kAbort = 5,          ///< the rest of this message will not be sent
  kMismatch = 6,       ///< the posted receive does not fit this message: MismatchBody follows
  kControl = 7,        ///< a control message, or a further part of one
  kWindowUpdate = 8,   ///< carries nothing but `window_returned`
  kGoAway = 9,         ///< the last frame of a connection; the reason follows
};

/// Precedes every part of every message.
struct FrameHeader {
  /// The sender needs no kClearToSend: the peer has announced the receive.
  static constexpr uint8_t kCleared = 1;
  /// Represents a message whose send was cancelled: the matching receive is cancelled, too.
  static constexpr uint8_t kCancelled = 2;

  uint32_t crc = 0;  ///< crc32c of the following fields
  FrameKind kind = FrameKind::kWindowUpdate;
  uint8_t flags = 0;
  uint16_t reserved = 0;  ///< always 0
  uint32_t channel = 0;
  uint32_t id = 0;
  uint32_t message = 0;          ///< the number that the sender gave the message
  uint32_t window_returned = 0;  ///< bytes that the sender may send eagerly again
  uint64_t fingerprint = 0;
  uint64_t total = 0;      ///< size of the whole message, bytes
  uint32_t part = 0;       ///< bytes that follow this header
  uint32_t reserved2 = 0;  ///< always 0
};
static_assert(sizeof(FrameHeader) == 48);

/// Sent back by a receiver whose posted receive does not fit the message that matched it.
struct MismatchBody {
  uint64_t sent_fingerprint;
  uint64_t sent_bytes;
  uint64_t expected_fingerprint;
  uint64_t expected_bytes;
};

constexpr size_t kMaxPart = size_t{512} << 10;
constexpr size_t kMaxReason = 4096;
constexpr uint64_t kMaxTotal = uint64_t{1} << 46;
/// What an unexpected message takes of the window beside its bytes.
constexpr size_t kMessageCost = 128;

/// Computes the checksum.
void seal(FrameHeader& header);

/// What is wrong with a received header; null if it is valid.
const char* why_damaged(const FrameHeader& header);

}  // namespace strata::wire
