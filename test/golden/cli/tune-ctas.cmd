tune --ctas 8,99
