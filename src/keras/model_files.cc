#include "strata/keras/model.h"
#include "strata/keras/model_config.h"
#include "strata/keras/saving.h"
#include "strata/keras/summary.h"

namespace strata::keras {

void Model::save(const std::string& path) const { save_model(*this, path); }
void Model::save_weights(const std::string& path) const { keras::save_weights(*this, path); }
void Model::load_weights(const std::string& path) const { keras::load_weights(*this, path); }
void Model::summary(std::ostream& out) const { print_summary(*this, out); }
std::string Model::to_json() const { return model_to_config(*this).dump(); }

}  // namespace strata::keras
