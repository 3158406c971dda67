#include "lessons/coreference_examples.h"
#include "lessons/hangul.h"

namespace heed {
namespace {

using Words = std::array<std::string_view, kNouns>;
using Role = CoreferenceSentence::Role;

// In the order of the English lists; the first of each are the tutorial's.
constexpr Words kAnimals = {"동물", "강아지", "고양이", "말",     "토끼",   "소",
                            "여우", "양",     "거북이", "오리",   "염소",   "곰",
                            "늑대", "사슴",   "돼지",   "원숭이", "코끼리", "호랑이",
                            "사자", "당나귀", "다람쥐", "너구리", "낙타",   "고슴도치"};
constexpr Words kPlaces = {"길",   "도로", "강",     "다리", "들판", "호수",   "언덕", "공원",
                           "정원", "마당", "골짜기", "숲",   "터널", "오솔길", "개울", "협곡",
                           "광장", "골목", "시장",   "동굴", "늪",   "초원",   "해변", "운동장"};
// Before 때문이다 and 때문에.
constexpr std::array<std::string_view, kAdjectives> kLiving = {
    "피곤했기", "배고팠기", "졸렸기",   "겁났기",   "목말랐기", "게을렀기",
    "아팠기",   "약했기",   "수줍었기", "초조했기", "화났기",   "지쳤기"};
constexpr std::array<std::string_view, kAdjectives> kSpatial = {
    "넓었기",   "길었기", "어두웠기",   "질퍽했기", "위험했기", "좁았기",
    "가팔랐기", "얼었기", "미끄러웠기", "험했기",   "붐볐기",   "멀었기"};
constexpr std::array<std::string_view, kVerbs> kActions = {
    "건너지", "지나가지", "찾아가지", "떠나지", "구경하지", "가로지르지", "둘러보지", "돌아다니지"};
constexpr std::array<std::string_view, kModifiers> kModifier = {"작은", "큰", "조용한", "낯선"};
constexpr std::array<std::string_view, kDegrees> kDegree = {"너무", "아주", "무척"};
constexpr std::array<std::string_view, kTimes> kTime = {"어제", "오늘", "지난밤"};

class KoreanSentence {
 public:
  explicit KoreanSentence(const CoreferencePlan& plan) : plan_(plan) {}

  CoreferenceExample render() {
    if (plan_.time < kTimes) {
      sentence_.add(kTime[plan_.time]);
    }
    const bool reason_first = plan_.frame == 1;
    if (plan_.distractor == Distractor::before && !reason_first) {
      others(Particle::subject);
      sentence_.add("자는 동안 ,");
    }
    clauses();
    if (plan_.distractor == Distractor::after ||
        (plan_.distractor == Distractor::before && reason_first)) {
      others(Particle::topic);
      sentence_.add("잤다 .");
    }
    return std::move(sentence_).finish(plan_.living,
                                       {kAnimals[plan_.animal], kPlaces[plan_.place]});
  }

 private:
  void clauses() {
    switch (plan_.frame) {
      case 0:
        animal(Particle::topic);
        place();
        action("않았다 .");
        reason("그것은", "때문이다 .");
        break;
      case 1:
        reason("그것이", "때문에");
        animal(Particle::topic);
        place();
        action("않았다 .");
        break;
      case 2:
        place();
        animal(Particle::subject);
        action("않았다 .");
        reason("그것은", "때문이다 .");
        break;
      default:
        animal(Particle::subject);
        place();
        action("않은 것은");
        reason("그것이", "때문이다 .");
    }
  }

  void modifier(int which) {
    if (plan_.modifiers[which] < kModifiers) {
      sentence_.add(kModifier[plan_.modifiers[which]]);
    }
  }

  void animal(Particle particle) {
    if (plan_.distractor == Distractor::place_inside) {
      modifier(3);
      sentence_.noun(std::string(kPlaces[plan_.other_place]) + "에서", Role::other);
      sentence_.add("온");
    } else if (plan_.distractor == Distractor::animal_inside) {
      modifier(2);
      sentence_.noun(with_particle(kAnimals[plan_.other_animal], Particle::with), Role::other);
      sentence_.add("함께 있던");
    }
    if (plan_.determiner) {
      sentence_.add("그");
    }
    modifier(0);
    sentence_.noun(with_particle(kAnimals[plan_.animal], particle), Role::animal);
  }

  void place() {
    modifier(1);
    sentence_.noun(with_particle(kPlaces[plan_.place], Particle::object), Role::place);
  }

  void action(std::string_view ending) {
    sentence_.add(kActions[plan_.verb]);
    sentence_.add(ending);
  }

  void reason(std::string_view it, std::string_view ending) {
    sentence_.query(it);
    sentence_.add(kDegree[plan_.degree]);
    sentence_.evidence((plan_.living ? kLiving : kSpatial)[plan_.adjective]);
    sentence_.add(ending);
  }

  void others(Particle particle) {
    modifier(2);
    sentence_.noun(with_particle(kAnimals[plan_.other_animal], particle), Role::other);
    modifier(3);
    sentence_.noun(std::string(kPlaces[plan_.other_place]), Role::other);
    sentence_.add("옆에서");
  }

  const CoreferencePlan& plan_;
  CoreferenceSentence sentence_;
};

}  // namespace

CoreferenceExample korean_coreference(const CoreferencePlan& plan) {
  return KoreanSentence(plan).render();
}

std::vector<std::string> korean_coreference_answers() {
  std::vector<std::string> nouns(kAnimals.begin(), kAnimals.end());
  nouns.insert(nouns.end(), kPlaces.begin(), kPlaces.end());
  return nouns;
}

}  // namespace heed
