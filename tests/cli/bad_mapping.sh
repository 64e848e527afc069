# Sources that do not fit their family's rules: which tensor, which rule; status 3; nothing is written.
source "$TESTS/cli/lib.bash"
example qwen3 example
fresh() {
  echo
  echo "-- $1"
  rm -rf in
  cp -r example in
}

fresh "a shape that contradicts config.json"
sed -i 's/"intermediate_size": *14/"intermediate_size": 15/' in/config.json
show convert in out
fresh "rules without their tensors: config.json has one layer more"
sed -i 's/"num_hidden_layers": *3/"num_hidden_layers": 4/' in/config.json
show convert in out
fresh "tensors without rules: config.json has one layer less"
sed -i 's/"num_hidden_layers": *3/"num_hidden_layers": 2/' in/config.json
show convert in out
fresh "a key that the rules need is missing"
sed -i '/"hidden_size"/d' in/config.json
show convert in out
fresh "biases, which MaxText's layers do not have"
sed -i 's/"attention_bias": *false/"attention_bias": true/' in/config.json
show convert in out
fresh "a mesh that does not divide"
show convert in out --mesh fsdp=4
fresh "left out on purpose, it is no error"
sed -i 's/"num_hidden_layers": *3/"num_hidden_layers": 2/' in/config.json
ends convert in out --exclude 'model.layers.2.*'
