why --machine list
