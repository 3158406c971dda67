#pragma once

#include <string>
#include <string_view>

namespace heed {

/// Korean particles have two forms; which one follows depends on whether the word before ends in a
/// consonant.
enum class Particle { topic, subject, object, with };  // 은/는, 이/가, 을/를, 과/와

/// True where the last character is a Hangul syllable with a final consonant.
bool ends_in_consonant(std::string_view word);

/// The word with its particle.
std::string with_particle(std::string_view word, Particle particle);

/// A number from 0 to 9,999 as it is read: 2016 is 이천십육.
std::string korean_number(int number);

}  // namespace heed
