#pragma once

#include <string>

namespace heed {

/// Resolves particles that are written with both forms, such as "이(가)" or "(으)로", by the sound
/// in front of them: a Korean syllable or a digit decides ("파일을", "3은", "7로"). After other
/// letters, whose pronunciation is not known, both forms stay.
std::string with_particles(std::string text);

}  // namespace heed
