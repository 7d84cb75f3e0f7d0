bench --ctas 8
