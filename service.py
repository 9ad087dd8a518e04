from mobile_app.service import main

main()
