#pragma once

#include <functional>
#include <string>

namespace strata::test {

/// One to four damages to `bytes`, at random places: another byte, another bit, bytes that are missing or are there
/// twice, or what `also` does.
std::string damaged(std::string bytes, auto& random,
                    const std::function<void(std::string&)>& also) {
  const auto place = [&] { return random() % bytes.size(); };
  const int count = 1 + static_cast<int>(random() % 4);
  for (int k = 0; k < count; ++k) {
    switch (random() % 5) {
      case 0:
        bytes[place()] = static_cast<char>(random());
        break;
      case 1:
        bytes[place()] ^= static_cast<char>(1 << random() % 8);
        break;
      case 2:
        bytes.erase(place(), 1 + random() % 8);
        break;
      case 3:
        bytes.insert(place(), bytes.substr(place(), 1 + random() % 8));
        break;
      default:
        also(bytes);
    }
    if (bytes.empty()) bytes = "x";
  }
  return bytes;
}

}  // namespace strata::test
