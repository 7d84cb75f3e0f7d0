tune --from none.csv
