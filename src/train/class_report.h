#pragma once

#include <string>
#include <vector>

#include "heed/picture.h"
#include "heed/train.h"

namespace heed {

/// Precision, recall, F1 and support of every class as a table for people; at most 40 classes,
/// those with the most examples. Ends with a sentence where one class is the only answer.
std::string class_table(const std::vector<std::string>& labels, const ClassScores& scores);

/// The confusion matrix as a heat map: rows are true classes, columns predicted ones, colours the
/// fraction of a row. Throws where there are no classes or more than 64.
Heatmap confusion_map(const std::vector<std::string>& labels, const ClassScores& scores);
/// Whether confusion_map() can draw them.
bool has_confusion_map(const ClassScores& scores);

}  // namespace heed
