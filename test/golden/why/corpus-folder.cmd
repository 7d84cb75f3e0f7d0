why --corpus .
