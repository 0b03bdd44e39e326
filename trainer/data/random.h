// A small generator whose sequence depends on nothing but its seed: shuffles and synthetic data are
// the same on every machine and standard library.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace trainyard::engine {

// SplitMix64 (Steele, Lea, Flood 2014). Seeds that differ in any bit give unrelated sequences.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  // The stream `stream` of a seed.
  Random(uint64_t seed, uint64_t stream) : state_(Random(Random(seed).Next() ^ (stream * 0xd1342543de82ef95)).Next()) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound), without bias (Lemire 2019); bound > 0.
  uint64_t Below(uint64_t bound) {
    unsigned __int128 product = static_cast<unsigned __int128>(Next()) * bound;
    if (static_cast<uint64_t>(product) < bound) {
      const uint64_t reject_below = -bound % bound;
      while (static_cast<uint64_t>(product) < reject_below) product = static_cast<unsigned __int128>(Next()) * bound;
    }
    return static_cast<uint64_t>(product >> 64);
  }

  // Uniform in (0, 1].
  double Unit() { return static_cast<double>((Next() >> 11) + 1) * 0x1p-53; }

  // Standard normal (Box and Muller 1958).
  double Normal() { return std::sqrt(-2.0 * std::log(Unit())) * std::cos(2.0 * std::numbers::pi * Unit()); }

 private:
  uint64_t state_;
};

}  // namespace trainyard::engine
