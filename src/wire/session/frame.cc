#include "wire/session/frame.h"

#include "core/crc32c.h"

namespace strata::wire {
namespace {

uint32_t checksum(const FrameHeader& header) {
  return crc32c(reinterpret_cast<const char*>(&header) + sizeof header.crc,
                sizeof header - sizeof header.crc);
}

}  // namespace

void seal(FrameHeader& header) { header.crc = checksum(header); }

const char* why_damaged(const FrameHeader& header) {
  if (header.crc != checksum(header)) return "a header with a wrong checksum";
  if (header.reserved != 0 || header.reserved2 != 0) return "a header with unknown fields";
  if (header.total > kMaxTotal) return "a message of more than 64 TiB";
  switch (header.kind) {
    case FrameKind::kMessage:
      if (header.flags > (FrameHeader::kCleared | FrameHeader::kCancelled)) return "unknown flags";
      if (header.part > kMaxPart || header.part > header.total) return "a part that is too long";
      return nullptr;
    case FrameKind::kData:
      if (header.part == 0 || header.part > kMaxPart || header.part > header.total)
        return "a part of a wrong length";
      break;
    case FrameKind::kControl:
      if (header.part == 0 && header.total > 0) return "a part of no length";
      if (header.part > kMaxPart || header.part > header.total) return "a part that is too long";
      if (header.total > Connection::kMaxMessage) return "a control message that is too long";
      break;
    case FrameKind::kMismatch:
      if (header.part != sizeof(MismatchBody)) return "a mismatch of a wrong length";
      break;
    case FrameKind::kGoAway:
      if (header.part > kMaxReason) return "a reason that is too long";
      break;
    case FrameKind::kReceivePosted:
    case FrameKind::kClearToSend:
    case FrameKind::kAbort:
    case FrameKind::kWindowUpdate:
      if (header.part != 0) return "a part where none belongs";
      break;
    default:
      return "a frame of an unknown kind";
  }
  return header.flags == 0 ? nullptr : "unknown flags";
}

}  // namespace strata::wire
